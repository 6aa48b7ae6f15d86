//! C12 · A zonal volume decides where the replacement must be.

use noderotation::rotation::step::Step;
use serde_json::{Value, json};

use crate::fleet::{Fleet, findings, placeholder, policy, reasons, required, told};

const OPEN: &str = "2026-12-04T18:00:00Z";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A start on a pool of these zones under a policy that replicates these keys, from this claim and Node.
fn start(keys: &[&str], zones: &[&str], claim: &Value, node: &Value) -> Step {
    Fleet::under(&policy(&json!({"surge": {"matchNodeRequirements": {"required": keys}}})))
        .pool(json!({"metadata": {"name": "db"}, "spec": {"template": {"spec": {
            "expireAfter": "336h", "terminationGracePeriod": "1h", "requirements": [{"key": ZONE, "operator": "In", "values": zones}],
        }}}}))
        .claim("db", "db-1", "2026-11-25T00:00:00Z", claim, node)
        .running("db-1", &json!({"cpu": "1"}))
        .step("db", OPEN)
}

fn terms(step: &Step) -> Vec<String> {
    assert_eq!(step.action.code, "start");
    required(placeholder(step).unwrap())
}

const POOL: &str = "karpenter.sh/nodepool In [db]";
const ARCH: &str = "kubernetes.io/arch In [amd64]";
const BOTH: [&str; 2] = [ZONE, "kubernetes.io/arch"];

fn in_c() -> Value {
    json!({"metadata": {"labels": {ZONE: "c"}}})
}

#[test]
fn a_policy_without_the_zone_is_told_and_rotates() {
    let step = start(&["kubernetes.io/arch"], &["a", "b", "c"], &json!({}), &in_c());
    assert_eq!((findings(&step), terms(&step)), (vec!["ZoneNotRequired"], vec![POOL.into(), ARCH.into()]));
}

#[test]
fn the_zone_is_that_of_the_node_else_of_its_claim() {
    let step = start(&BOTH, &["a", "b", "c"], &json!({}), &in_c());
    let expected = [POOL.to_owned(), format!("{ZONE} In [c]"), ARCH.into()];
    assert_eq!((terms(&step), reasons(&step)), (expected.to_vec(), vec![]));
    let claim = json!({"spec": {"requirements": [{"key": ZONE, "operator": "In", "values": ["c"]}]}});
    let step = start(&BOTH, &["a", "b", "c"], &claim, &json!({"metadata": {"labels": {ZONE: null}}}));
    assert_eq!((terms(&step), reasons(&step)), (expected.to_vec(), vec![]));
}

#[test]
fn a_zone_that_the_pool_has_since_given_up_is_left_out_and_told() {
    let step = start(&BOTH, &["a", "b"], &json!({}), &in_c());
    assert_eq!(terms(&step), [POOL, ARCH]);
    assert_eq!(
        told(&step),
        ["RequirementDropped: topology.kubernetes.io/zone c: not asked of the replacement, since NodePool db allows only: In [a, b]. \
          Pods of NodeClaim db-1 that need it may find no node: let the pool allow it, or take it out of matchNodeRequirements."]
    );
}
