//! What a pass knows of the objects that it writes: what it has read, and what its own writes have left. A write that is
//! judged on such a copy lands only on that very version, so it needs no reading first.

use std::{cell::RefCell, collections::BTreeMap};

use crate::{
    cluster::Failure,
    rotation::effect::{Fresh, Outcome, Target},
    view::View,
};

/// The copies of one pass; one for all its pools. Without a View nothing is known, and nothing learned.
#[derive(Debug, Default)]
pub struct Known<'a> {
    view: Option<&'a View>,
    /// What a write of ours has left of its object; `None` where that can't be told, and it has to be read.
    written: RefCell<BTreeMap<Target, Option<Fresh>>>,
}

impl<'a> Known<'a> {
    /// Knows what the pass has read.
    pub fn of(view: &'a View) -> Self {
        Self { view: Some(view), written: RefCell::default() }
    }

    /// The newest copy: `None` where there is none to judge by, `Some(None)` where there was no such object.
    pub(super) fn copy(&self, target: &Target) -> Option<Option<Fresh>> {
        let view = self.view?;
        match self.written.borrow().get(target) {
            Some(written) => written.clone().map(Some),
            None => view.copy_of(target),
        }
    }

    /// Learns from a write of ours. Only one that has landed leaves a copy: whatever else it came to, the object is not as it
    /// was known. An older copy must go: what our own write has changed would look as if that write had come twice.
    pub(super) fn learn(&self, target: Target, outcome: &Result<Outcome, Failure>) {
        if self.view.is_none() {
            return;
        }
        let left = match outcome {
            Ok(Outcome::Landed { after, .. }) => after.clone(),
            _ => None,
        };
        self.written.borrow_mut().insert(target, left);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rotation::effect::Kind;

    fn pool(version: &str) -> Fresh {
        Fresh::NodePool(serde_json::from_value(json!({"metadata": {"name": "web", "resourceVersion": version}})).unwrap())
    }

    fn target(kind: Kind, name: &str) -> Target {
        Target { kind, namespace: String::new(), name: name.into() }
    }

    #[test]
    fn the_copy_is_what_was_read_until_a_write_of_ours_has_left_another_or_failed() {
        let Fresh::NodePool(read) = pool("1") else { panic!("it is a pool") };
        let view = View { pools: [("web".to_owned(), read)].into(), ..View::default() };
        let (known, web) = (Known::of(&view), target(Kind::NodePool, "web"));
        assert_eq!(known.copy(&web), Some(Some(pool("1"))));
        known.learn(web.clone(), &Ok(Outcome::landed(Some(pool("1")), Some(pool("2")))));
        assert_eq!(known.copy(&web), Some(Some(pool("2"))));
        let raced = Outcome::Raced("another rotation".into());
        let lost = Failure::Call { attempted: "patch".into(), why: "reset".into() };
        let gone = Outcome::landed(Some(pool("2")), None);
        for outcome in [Ok(Outcome::Already), Ok(raced), Ok(Outcome::Gone), Ok(gone), Err(lost)] {
            known.learn(web.clone(), &Ok(Outcome::landed(None, Some(pool("2")))));
            known.learn(web.clone(), &outcome);
            assert_eq!(known.copy(&web), None, "{outcome:?}");
        }
    }

    #[test]
    fn only_what_was_read_whole_is_a_copy() {
        let node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
        let view = View { marked: [("n1".to_owned(), node)].into(), ..View::default() };
        let known = Known::of(&view);
        assert_eq!(known.copy(&target(Kind::Node, "n1")), None, "of a marked Node only the metadata was read");
        assert_eq!(known.copy(&target(Kind::NodeClaim, "a")), None, "it may be there and unreadable");
        assert_eq!(known.copy(&target(Kind::Pod, "p1")), Some(None));
        assert_eq!(Known::default().copy(&target(Kind::Pod, "p1")), None);
        let nothing = Known::default();
        nothing.learn(target(Kind::NodePool, "web"), &Ok(Outcome::landed(None, Some(pool("2")))));
        assert_eq!(nothing.copy(&target(Kind::NodePool, "web")), None);
        assert!(nothing.written.borrow().is_empty(), "nobody would look at it");
    }
}
