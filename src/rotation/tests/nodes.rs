//! What freeze, cordon and restore leave of a Node: exactly what was there before.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{fleet::*, judge::fresh};
use crate::{
    api::keys,
    rotation::effect::{Effect, Kind, Owner, Verdict, apply},
};

fn perform(node: &mut Value, effect: &Effect) {
    if let Verdict::Patch(patch) = apply(effect, Some(&fresh(Kind::Node, node)), "p") {
        merge(node, &patch.to_value());
    }
}

/// Every Node that an operator may have made: protected or not, cordoned or not, with labels and annotations of their own.
fn operators() -> Vec<Value> {
    let mut nodes = Vec::new();
    for protected in [false, true] {
        for cordoned in [false, true] {
            for own in [false, true] {
                let fleet = fleet().claim("a", |claim| claim).change(Kind::Node, "node-a", |node| {
                    let node = if protected { node.note(keys::DO_NOT_DISRUPT, "true") } else { node };
                    let node = if cordoned { node.spec("unschedulable", json!(true)) } else { node };
                    if own { node.note("example.com/note", "mine").label("team", "shop") } else { node }
                });
                nodes.push(fleet.objects[&(Kind::Node, "node-a".into())].0.clone());
            }
        }
    }
    nodes
}

#[test]
fn whatever_was_done_to_a_node_is_undone_and_nothing_else() {
    let (node, claim) = ("node-a".to_owned(), "a".to_owned());
    let freeze = Effect::Freeze { node: node.clone(), claim: claim.clone() };
    let hold = Effect::Hold { node: node.clone(), claim: claim.clone() };
    let by_rotation = Effect::Restore { node: node.clone(), owner: Owner::Claim(claim) };
    let by_sweep = Effect::Restore { node, owner: Owner::NoneOf(BTreeSet::from(["b".to_owned()])) };
    for before in operators() {
        for done in [vec![], vec![&freeze], vec![&hold], vec![&freeze, &hold], vec![&hold, &hold, &freeze]] {
            for restore in [&by_rotation, &by_sweep] {
                let mut after = before.clone();
                done.iter().for_each(|effect| perform(&mut after, effect));
                perform(&mut after, restore);
                assert_eq!(after, before, "{done:?}");
            }
        }
    }
}

#[test]
fn what_the_operator_does_meanwhile_stays() {
    let mut node = operators()[0].clone();
    let (name, claim) = ("node-a".to_owned(), "a".to_owned());
    perform(&mut node, &Effect::Hold { node: name.clone(), claim: claim.clone() });
    node["metadata"]["annotations"][keys::DO_NOT_DISRUPT] = json!("2h");
    node["metadata"]["annotations"]["example.com/note"] = json!("look");
    node["spec"].as_object_mut().unwrap().remove("unschedulable");
    perform(&mut node, &Effect::Restore { node: name, owner: Owner::Claim(claim) });
    assert_eq!(node["metadata"]["annotations"], json!({keys::DO_NOT_DISRUPT: "2h", "example.com/note": "look"}));
    assert_eq!(node["spec"], json!({}));
}
