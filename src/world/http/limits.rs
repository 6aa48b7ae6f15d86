//! LimitRanges at the door: those of a Pod's namespace judge it, and give it their defaults.

use serde_json::Value;

use super::{
    State,
    answer::Answer,
    request::Call,
    resource::{LIMITS, PODS},
};
use crate::world::limits::{self, Refusal};

impl State {
    /// Gives a new Pod's containers the defaults of its namespace, and says whether it may be created then.
    pub fn meets_limits(&self, call: &Call, name: &str, object: &mut Value) -> Result<(), Answer> {
        if call.kind != PODS {
            return Ok(());
        }
        let ranges = self.shelf.iter().filter(|(key, _)| key.is(LIMITS) && key.namespace == call.namespace);
        let items: Vec<&Value> = ranges.flat_map(|(_, range)| range["spec"]["limits"].as_array().into_iter().flatten()).collect();
        limits::admit(&items, name, object).map_err(|refusal| match refusal {
            Refusal::Forbidden(words) => Answer::forbidden(PODS, name, &words),
            Refusal::Invalid { field, why } => Answer::invalid(PODS, name, &field, &why),
        })
    }
}

/// What the API server gives to a new LimitRange.
pub(super) fn furnish(object: &mut Value) {
    if let Some(items) = object["spec"]["limits"].as_array_mut() {
        limits::furnish(items);
    }
}
