//! LimitRanges of containers and Pods: a new Pod is given their defaults, and refused where it then breaks what they demand, in a
//! dry run as in earnest. Ratios and claims of volumes are not modelled.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::pool::PoolWorld;
use crate::{
    api::{self, pod::Pod, quantity::Quantity},
    surge::requests::effective_requests,
};

/// What the API server writes onto a Pod that was given defaults.
const DEFAULTED: &str = "kubernetes.io/limit-ranger";
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// Why a Pod may not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It breaks what a policy of the namespace demands; the whole message.
    Forbidden(String),
    /// With the defaults it can't be stored: which field, and why.
    Invalid { field: String, why: String },
}

impl PoolWorld {
    /// Sets the items (`spec.limits`) of the LimitRanges in the namespace of the pool's placeholders; none of them removes these.
    pub fn set_limits(&mut self, mut items: Vec<Value>) {
        furnish(&mut items);
        self.limits = items;
        self.note_change();
    }

    /// The placeholder as it would be stored, where that differs from what was sent.
    ///
    /// # Errors
    /// Why it is refused, by the LimitRanges or a quota: HTTP status and words.
    pub fn admitted(&self, pod: &Pod) -> Result<Option<Pod>, (u16, String)> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let mut changed = None;
        if !self.limits.is_empty() {
            let mut object = serde_json::to_value(pod).unwrap_or_default();
            admit(&self.limits.iter().collect::<Vec<_>>(), name, &mut object).map_err(|refusal| match refusal {
                Refusal::Forbidden(words) => (403, words),
                Refusal::Invalid { field, why } => (422, format!("Pod \"{name}\" is invalid: {field}: {why}")),
            })?;
            changed = api::json::from_value::<Pod>(&object).ok().filter(|changed| changed != pod);
        }
        match self.over_quota(name) {
            Some(words) => Err((403, words)),
            None => Ok(changed),
        }
    }
}

/// Gives a new Pod's containers the defaults of these items, and says whether it may be created then.
pub(super) fn admit(items: &[&Value], name: &str, object: &mut Value) -> Result<(), Refusal> {
    if items.is_empty() {
        return Ok(());
    }
    give_defaults(items, object);
    fits_its_limits(object)?;
    let broken: Vec<String> = items.iter().flat_map(|item| broken(item, object)).collect();
    let why = match broken.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Err(Refusal::Forbidden(format!("pods \"{name}\" is forbidden: {why}")))
}

/// What the API server gives to the items of a new LimitRange: the defaults of containers follow from what it demands of them.
pub(super) fn furnish(items: &mut [Value]) {
    for item in items.iter_mut().filter(|item| item["type"] == "Container") {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let from = item[from].as_object().cloned().unwrap_or_default();
            let Some(fields) = item.as_object_mut().filter(|_| !from.is_empty()) else { continue };
            fill(fields.entry(to).or_insert_with(|| json!({})), &from);
        }
    }
}

/// Adds what a list lacks; says what that was.
fn fill(list: &mut Value, from: &Map<String, Value>) -> Vec<String> {
    let Some(list) = list.as_object_mut() else { return Vec::new() };
    let missing: Vec<String> = from.keys().filter(|key| !list.contains_key(*key)).cloned().collect();
    list.extend(missing.iter().map(|key| (key.clone(), from[key].clone())));
    missing
}

fn give_defaults(items: &[&Value], pod: &mut Value) {
    let mut told = Vec::new();
    let of = |field: &str| -> Map<String, Value> {
        let lists = items.iter().filter(|item| item["type"] == "Container").filter_map(|item| item[field].as_object());
        lists.flatten().map(|(resource, amount)| (resource.clone(), amount.clone())).collect()
    };
    let (limits, requests) = (of("default"), of("defaultRequest"));
    for (list, words) in CONTAINERS {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter(|one| one.is_object()) {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            let Some(resources) = container.as_object_mut().map(|fields| fields.entry("resources").or_insert_with(|| json!({}))) else {
                continue;
            };
            // Who says how much it may use at most, and not how much it wants, wants that.
            let own = resources["limits"].as_object().cloned().unwrap_or_default();
            let mut given = BTreeMap::new();
            for (field, what, amounts) in [("requests", "", &own), ("limits", "limit", &limits), ("requests", "request", &requests)] {
                let Some(fields) = resources.as_object_mut().filter(|_| !amounts.is_empty()) else { continue };
                let set = fill(fields.entry(field).or_insert_with(|| json!({})), amounts);
                given.insert(what, set);
            }
            for what in ["request", "limit"] {
                let set = given.remove(what).unwrap_or_default();
                if !set.is_empty() {
                    told.push(format!("{} {what} for {words} {name}", set.join(", ")));
                }
            }
        }
    }
    if !told.is_empty() {
        pod["metadata"]["annotations"][DEFAULTED] = json!(format!("LimitRanger plugin set: {}", told.join("; ")));
    }
}

/// Whether no container wants more than it may use.
fn fits_its_limits(pod: &Value) -> Result<(), Refusal> {
    for (list, _) in CONTAINERS {
        for (index, container) in pod["spec"][list].as_array().into_iter().flatten().enumerate() {
            let (requests, limits) = (amounts(&container["resources"]["requests"]), amounts(&container["resources"]["limits"]));
            let over = requests.iter().find(|(resource, amount)| limits.get(*resource).is_some_and(|limit| limit.0 < amount.0));
            if let Some((resource, amount)) = over {
                let (amount, limit) = (amount.canonical(resource), limits[resource].canonical(resource));
                let why = format!("Invalid value: \"{amount}\": must be less than or equal to {resource} limit of {limit}");
                return Err(Refusal::Invalid { field: format!("spec.{list}[{index}].resources.requests"), why });
            }
        }
    }
    Ok(())
}

type Amounts = BTreeMap<String, Quantity>;

fn amounts(list: &Value) -> Amounts {
    let amounts = list.as_object().into_iter().flatten();
    amounts.filter_map(|(resource, amount)| Some((resource.clone(), Quantity::parse_value(amount).ok()?))).collect()
}

/// What an item of a LimitRange demands and a Pod breaks, in the API server's words.
fn broken(item: &Value, pod: &Value) -> Vec<String> {
    let kind = item["type"].as_str().unwrap_or_default();
    let measured: Vec<(Amounts, Amounts)> = match kind {
        "Container" => {
            let lists = CONTAINERS.iter().flat_map(|(list, _)| pod["spec"][list].as_array().into_iter().flatten());
            lists.map(|container| (amounts(&container["resources"]["requests"]), amounts(&container["resources"]["limits"]))).collect()
        }
        "Pod" => vec![(whole(pod, "requests"), whole(pod, "limits"))],
        _ => return Vec::new(),
    };
    let (min, max) = (amounts(&item["min"]), amounts(&item["max"]));
    let mut broken = Vec::new();
    for (requests, limits) in &measured {
        let least = min.iter().filter_map(|(resource, bound)| {
            let is_less = |amount: &Quantity| amount.0 < bound.0;
            judge(("minimum", kind, resource, *bound), [("request", requests), ("limit", limits)], is_less)
        });
        broken.extend(least);
        let most = max.iter().filter_map(|(resource, bound)| {
            let is_more = |amount: &Quantity| amount.0 > bound.0;
            judge(("maximum", kind, resource, *bound), [("limit", limits), ("request", requests)], is_more)
        });
        broken.extend(most);
    }
    broken
}

/// What is wrong with an amount. The first of the lists has to name one; the second only where it does.
fn judge(
    (bound, kind, resource, amount): (&str, &str, &String, Quantity),
    [first, second]: [(&str, &Amounts); 2],
    is_wrong: impl Fn(&Quantity) -> bool,
) -> Option<String> {
    let words = format!("{bound} {resource} usage per {kind} is {}", amount.canonical(resource));
    let Some(_) = first.1.get(resource) else {
        let what = if first.0 == "limit" { "No limit" } else { "No request" };
        return Some(format!("{words}.  {what} is specified"));
    };
    [first, second].into_iter().find_map(|(what, list)| {
        let found = list.get(resource).filter(|found| is_wrong(found))?;
        Some(format!("{words}, but {what} is {}", found.canonical(resource)))
    })
}

/// What all containers of a Pod come to.
fn whole(pod: &Value, field: &str) -> Amounts {
    let mut pod = pod.clone();
    for (list, _) in CONTAINERS {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            let amounts = container.get("resources").map(|resources| resources[field].clone()).filter(|amounts| !amounts.is_null());
            container.insert("resources".into(), json!({"requests": amounts.unwrap_or_else(|| json!({}))}));
        }
    }
    let sum = api::json::from_value::<Pod>(&pod).ok().and_then(|pod| effective_requests(&pod).ok());
    sum.map(|sum| sum.0).unwrap_or_default()
}
