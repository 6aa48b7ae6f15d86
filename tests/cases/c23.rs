//! C23 · Quantities as people and CRDs write them.

use noderotation::api::quantity::{Quantity, Resources};
use serde_json::json;

use crate::fleet::{Fleet, policy, told};

const OPEN: &str = "2026-12-04T18:00:00Z";

#[test]
fn quantities_read_as_kubernetes_reads_them() {
    for (text, value) in [
        ("100m", 1),
        ("1.5Gi", 1_610_612_736),
        ("0.5Gi", 536_870_912),
        ("1e3", 1000),
        ("1E3", 1000),
        ("129e6", 129_000_000),
        ("1E", 10_i64.pow(18)),
        ("1Ei", 1 << 60),
        ("128974848000m", 128_974_848),
        ("5.", 5),
        (".5", 1),
        ("+1", 1),
        ("-1", -1),
        ("100n", 1),
        ("1e-3", 1),
        ("9223372036854775807", i64::MAX),
        ("9223372036854775808", i64::MAX),
        ("12E", i64::MAX),
        ("16Ei", i64::MAX),
    ] {
        assert_eq!(Quantity::parse(text).map(Quantity::value), Ok(value), "{text}");
    }
    for text in ["1K", "1ki", "1 Gi", " 1Gi", "", "1.5.5", "0x10", "1_000", "10e", "1e3Mi"] {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
}

#[test]
fn sums_are_exact_and_saturate() {
    let tenth = Resources([("cpu".into(), Quantity::parse("0.1").unwrap())].into());
    assert_eq!(Resources::sum([&tenth, &tenth, &tenth]).to_string(), "cpu 300m");
    let huge = Resources([("memory".into(), Quantity::parse("6E").unwrap())].into());
    assert_eq!(Resources::sum([&huge, &huge]).get("memory").value(), i64::MAX);
}

/// Three claims of each pool, one of each due.
fn fleet(limits: serde_json::Value, used: serde_json::Value) -> Fleet {
    let template = json!({"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}});
    let mut fleet = Fleet::under(&policy(&json!({})))
        .pool(json!({"metadata": {"name": "odd"}, "spec": {"limits": limits, "template": template}, "status": {"resources": used}}))
        .pool(json!({"metadata": {"name": "web"}, "spec": {"template": template}}));
    for pool in ["odd", "web"] {
        for number in 1..=3 {
            let (name, created) = (format!("{pool}-{number}"), if number == 1 { "2026-11-25T00:00:00Z" } else { "2026-12-04T00:00:00Z" });
            fleet = fleet.claim(pool, &name, created, &json!({}), &json!({})).running(&name, &json!({"cpu": "0.1"}));
        }
    }
    fleet
}

#[test]
fn a_pool_closed_by_nodes_0_has_no_headroom() {
    let step = fleet(json!({"cpu": 1000, "nodes": 0}), json!({"cpu": 12})).step("odd", OPEN);
    assert_eq!((step.action.code, step.effects.len()), ("gated", 0));
    let told = told(&step);
    assert!(
        matches!(told.as_slice(), [text] if text.starts_with("InsufficientHeadroom: ") && text.contains("nodes: 1 requested, -3 remaining of limit 0")),
        "{told:?}"
    );
}

#[test]
fn a_quantity_that_cannot_be_read_stops_its_own_pool_only() {
    let decision = fleet(json!({"cpu": "1 k"}), json!({})).decide(OPEN);
    let (odd, web) = (&decision.steps["odd"], &decision.steps["web"]);
    assert_eq!(odd.error.as_deref(), Some(r#"pool odd: NodePool odd: spec.limits.cpu: "1 k" is no quantity"#));
    assert_eq!((odd.effects.len(), web.action.code), (0, "start"));
    assert_eq!(
        crate::fleet::placeholder(web).unwrap().spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()
            ["cpu"]
            .0,
        "100m"
    );
}
