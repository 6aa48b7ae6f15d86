use chrono::TimeDelta;
use serde_json::{Value, json};

use super::*;
use crate::{api::time::parse_annotation, policy::read, schedule::derive::Lifetime};

/// The findings on a pool whose template lives 336h with an hour of grace, under a policy with Wed and Sat 02:00-06:00 in
/// Tokyo, as `Code: message`. What is given replaces fields of the policy's spec and of the pool's.
fn found(spec: Value, pool: Value, claims: usize) -> Vec<String> {
    let mut policy = json!({
        "nodePoolSelector": {},
        "maintenanceWindows": [{"timezone": "Asia/Tokyo", "days": ["Wed", "Sat"], "start": "02:00", "end": "06:00"}],
    });
    merge(&mut policy, &spec);
    let mut object = json!({"spec": {"template": {"spec": {"expireAfter": "336h", "terminationGracePeriod": "1h"}}}});
    merge(&mut object, &pool);
    let pool: NodePool = serde_json::from_value(object).unwrap();
    let policy = read::policy(&json!({"spec": policy}));
    let schedule = Schedule::of(&policy.settings.windows, parse_annotation("2026-12-01T00:00:00Z").unwrap());
    let template = &pool.spec.template.spec;
    let lifetime = Lifetime { expire_after: template.expire_after(), grace: template.grace() };
    let derivation = Derivation::of(&policy.settings, &schedule, lifetime, TimeDelta::minutes(1));
    let findings = findings(&policy, &schedule, &pool, claims, &derivation);
    findings.into_iter().map(|finding| format!("{}: {}", finding.code.name(), finding.message)).collect()
}

/// RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    for (field, value) in fields {
        merge(&mut into[field], value);
    }
}

/// The names alone, for what doesn't fire.
fn names(spec: Value, pool: Value, claims: usize) -> Vec<String> {
    found(spec, pool, claims).iter().map(|text| text.split(':').next().unwrap().to_owned()).collect()
}

fn template(expire_after: &str, grace: &str) -> Value {
    json!({"spec": {"template": {"spec": {"expireAfter": expire_after, "terminationGracePeriod": grace}}}})
}

fn surge(fields: Value) -> Value {
    json!({"surge": fields})
}

const NONE: [&str; 0] = [];

#[test]
fn a_policy_that_fits_its_pool_has_none() {
    assert_eq!(found(json!({}), json!({}), 6), NONE);
    assert_eq!(found(json!({}), template("336h", "24h0m0s"), 6), NONE);
}

#[test]
fn no_windows() {
    assert_eq!(
        found(json!({"maintenanceWindows": []}), json!({}), 6),
        ["NoWindows: no maintenance window ever opens (entries that can be read: 0): give at least one whose days and hours occur"]
    );
}

#[test]
fn k_below_one() {
    assert_eq!(
        found(json!({"minRotationChances": 0}), json!({}), 6),
        ["KBelowOne: minRotationChances is 0: set it to at least 1, better 2"]
    );
}

#[test]
fn k_below_two() {
    assert_eq!(
        found(json!({"minRotationChances": 1}), json!({}), 6),
        ["KBelowTwo: minRotationChances is 1: a node that misses its one window expires at an hour nobody chose; set it to 2 or more"]
    );
    assert_eq!(found(json!({"minRotationChances": 2}), json!({}), 6), NONE);
}

#[test]
fn a_non_positive() {
    assert_eq!(
        found(json!({}), template("193h19m", "1h"), 0),
        ["ANonPositive: A = expireAfter 193h19m - leadTime 193h19m = 0s, where leadTime = K 2 x P 96h (from the opening of \
             2026-11-27T17:00:00Z to that of 2026-12-01T17:00:00Z) + t_rot 1h19m: raise expireAfter above 193h19m, open windows more \
             often, or lower minRotationChances, terminationGracePeriod or readyTimeout"]
    );
    assert_eq!(names(json!({}), template("193h20m", "1h"), 0), ["AVeryAggressive"]);
    let saturdays = json!({"maintenanceWindows": [{"timezone": "UTC", "days": ["Sat"], "start": "02:00", "end": "06:00"}]});
    assert_eq!(names(saturdays, json!({}), 6), ["ANonPositive"]);
}

#[test]
fn a_non_positive_names_the_week_that_is_an_hour_longer() {
    let fridays = json!({"maintenanceWindows": [{"timezone": "America/Los_Angeles", "days": ["Fri"], "start": "21:00", "end": "05:00"}]});
    assert_eq!(
        found(fridays.clone(), template("339h19m", "1h"), 0),
        ["ANonPositive: A = expireAfter 339h19m - leadTime 339h19m = 0s, where leadTime = K 2 x P 169h (from the opening of \
             2027-11-06T04:00:00Z to that of 2027-11-13T05:00:00Z) + t_rot 1h19m: raise expireAfter above 339h19m, open windows more \
             often, or lower minRotationChances, terminationGracePeriod or readyTimeout"]
    );
    assert_eq!(names(fridays, template("339h20m", "1h"), 0), ["AVeryAggressive"]);
}

#[test]
fn override_non_positive() {
    assert_eq!(
        found(json!({"ageThreshold": "0s"}), json!({}), 0),
        ["OverrideNonPositive: ageThreshold is 0s: set it longer than 0, or to auto"]
    );
    assert_eq!(names(json!({"ageThreshold": "1s"}), json!({}), 0), ["AVeryAggressive"]);
}

#[test]
fn override_g_below_one() {
    assert_eq!(
        found(json!({"ageThreshold": "238h42m"}), json!({}), 6),
        ["OverrideGBelowOne: ageThreshold 238h42m guarantees G = 0 chances, floor((expireAfter 336h - t_rot 1h19m - 238h42m) / P \
             96h (from the opening of 2026-11-27T17:00:00Z to that of 2026-12-01T17:00:00Z)): lower it to 238h41m or less, or set it to \
             auto"]
    );
    assert_eq!(names(json!({"ageThreshold": "238h41m"}), json!({}), 6), ["OverrideGBelowK"]);
    assert_eq!(
        found(json!({"ageThreshold": "238h42m"}), template("97h", "1h"), 6),
        ["OverrideGBelowOne: ageThreshold 238h42m guarantees G = -2 chances, floor((expireAfter 97h - t_rot 1h19m - 238h42m) / P \
             96h (from the opening of 2026-11-27T17:00:00Z to that of 2026-12-01T17:00:00Z)): raise expireAfter above 97h19m, or open \
             windows more often"]
    );
}

#[test]
fn override_g_below_k() {
    assert_eq!(
        found(json!({"ageThreshold": "142h42m"}), json!({}), 6),
        ["OverrideGBelowK: ageThreshold 142h42m guarantees G = 1 chances, floor((expireAfter 336h - t_rot 1h19m - 142h42m) / P 96h \
             (from the opening of 2026-11-27T17:00:00Z to that of 2026-12-01T17:00:00Z)), fewer than minRotationChances 2: lower it to \
             142h41m or less, or set it to auto"]
    );
    assert_eq!(found(json!({"ageThreshold": "142h41m"}), json!({}), 6), NONE);
}

#[test]
fn a_very_aggressive() {
    assert_eq!(
        found(json!({}), template("289h18m", "1h"), 6),
        ["AVeryAggressive: A = 95h59m is shorter than P = 96h: every node is replaced in nearly every window; raise expireAfter, \
             lower minRotationChances, or open windows more often"]
    );
    assert_eq!(found(json!({}), template("289h19m", "1h"), 6), NONE);
}

#[test]
fn grace_unset() {
    assert_eq!(
        found(json!({}), json!({"spec": {"template": {"spec": {"terminationGracePeriod": null}}}}), 6),
        ["TGPUnset: terminationGracePeriod of the NodePool is unset: a drain may last for ever, and drainTimeout 1h stands for it \
             in every formula; set it in the NodePool's template"]
    );
    assert_eq!(
        found(json!({}), template("336h", "soon"), 6),
        ["TGPUnset: terminationGracePeriod of the NodePool can't be read (\"soon\"): a drain may last for ever, and drainTimeout 1h \
             stands for it in every formula; set it in the NodePool's template"]
    );
    assert_eq!(found(json!({}), template("336h", "0s"), 6), NONE);
}

#[test]
fn hard_cap_exceeded() {
    assert_eq!(
        found(json!({}), template("480h", "25h"), 6),
        ["HardCapExceeded: expireAfter 480h + terminationGracePeriod 25h = 505h, over the 504h that EKS Auto Mode allows: lower \
             expireAfter to 479h or less (elsewhere this can be ignored)"]
    );
    assert_eq!(found(json!({}), template("480h", "24h"), 6), NONE);
    let unset = |expire: &str| json!({"spec": {"template": {"spec": {"expireAfter": expire, "terminationGracePeriod": null}}}});
    assert_eq!(names(json!({}), unset("503h1m"), 6), ["TGPUnset", "HardCapExceeded"]);
    assert_eq!(names(json!({}), unset("503h"), 6), ["TGPUnset"]);
}

#[test]
fn retry_backoff_short() {
    assert_eq!(
        found(surge(json!({"retryBackoff": "14m59s"})), json!({}), 6),
        ["RetryBackoffShort: retryBackoff 14m59s is shorter than readyTimeout 15m: a node is tried again sooner than its attempt \
             may take; raise it to 15m or more"]
    );
    assert_eq!(found(surge(json!({"retryBackoff": "15m"})), json!({}), 6), NONE);
}

#[test]
fn throughput_below_arrival() {
    assert_eq!(
        found(json!({}), json!({}), 15),
        ["ThroughputBelowArrival: 15 NodeClaims come due within A = 142h41m, but C = 10 of them may start in P = 96h: open windows \
             longer or more often, or shorten cooldownAfter 10m (one rotation is expected to take 15m)"]
    );
    assert_eq!(found(json!({}), json!({}), 14), NONE);
    // As many as come due is enough: A = P, N = C.
    assert_eq!(found(json!({"ageThreshold": "96h"}), json!({}), 10), NONE);
    assert_eq!(names(json!({"ageThreshold": "96h"}), json!({}), 11), ["ThroughputBelowArrival"]);
}

#[test]
fn throughput_burst_shortfall() {
    assert_eq!(
        found(json!({}), template("480h", "1h"), 21),
        ["ThroughputBurstShortfall: 21 NodeClaims of the same age are more than K = 2 windows with C = 10 starts each admit (20): \
             open windows longer, or raise minRotationChances to 3 or more"]
    );
    assert_eq!(found(json!({}), template("480h", "1h"), 20), NONE);
}

#[test]
fn always_open_takes_one_rotation_after_the_other() {
    let every_day = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let always = json!({"maintenanceWindows": [{"timezone": "UTC", "days": every_day, "start": "00:00", "end": "24:00"}]});
    assert_eq!(
        found(always.clone(), json!({}), 3),
        ["ThroughputBurstShortfall: 3 NodeClaims of the same age are more than K = 2 windows with C = 1 starts each admit (2): \
             raise minRotationChances to 3 or more"]
    );
    assert_eq!(found(always.clone(), json!({}), 2), NONE);
    // 25m each: 803 of them within A = 334h39m.
    assert_eq!(names(always.clone(), json!({}), 803), ["ThroughputBurstShortfall"]);
    assert_eq!(names(always, json!({}), 804), ["ThroughputBelowArrival", "ThroughputBurstShortfall"]);
}

#[test]
fn rotation_spans_next_window() {
    let second = |start: &str| {
        let entry = |start: &str, end: &str| json!({"timezone": "UTC", "days": ["Wed", "Sat"], "start": start, "end": end});
        json!({"maintenanceWindows": [entry("02:00", "04:00"), entry(start, "06:00")]})
    };
    assert_eq!(
        found(second("04:24"), json!({}), 6),
        ["RotationSpansNextWindow: t_rot_est 15m + cooldownAfter 10m = 25m is longer than the 24m between two windows: a rotation \
             that starts late costs the next window a start; leave more time between them, or join them"]
    );
    assert_eq!(found(second("04:25"), json!({}), 6), NONE);
}

#[test]
fn provisioning_estimate_above_ready_timeout() {
    assert_eq!(
        found(surge(json!({"provisioningEstimate": "15m1s"})), json!({}), 6),
        ["ProvisioningEstimateAboveReadyTimeout: provisioningEstimate 15m1s is above readyTimeout 15m, which is taken instead: \
             lower the one or raise the other"]
    );
    assert_eq!(found(surge(json!({"provisioningEstimate": "15m"})), json!({}), 6), NONE);
}

#[test]
fn drain_estimate_above_grace() {
    assert_eq!(
        found(surge(json!({"drainEstimate": "1h1s"})), json!({}), 5),
        ["DrainEstimateAboveTGP: drainEstimate 1h1s is above terminationGracePeriod 1h, which is taken instead: lower the one or \
             raise the other"]
    );
    assert_eq!(found(surge(json!({"drainEstimate": "1h"})), json!({}), 5), NONE);
}

#[test]
fn zone_not_required() {
    let required = |keys: Value| surge(json!({"matchNodeRequirements": {"required": keys}}));
    assert_eq!(
        found(required(json!(["kubernetes.io/arch"])), json!({}), 6),
        ["ZoneNotRequired: matchNodeRequirements.required is [kubernetes.io/arch]: Pods with zonal volumes can't follow to a \
             replacement in another zone; add topology.kubernetes.io/zone"]
    );
    assert_eq!(names(required(json!([])), json!({}), 6), ["ZoneNotRequired"]);
    assert_eq!(found(required(json!(["topology.kubernetes.io/zone"])), json!({}), 6), NONE);
}

#[test]
fn static_node_pool() {
    assert_eq!(
        found(json!({}), json!({"spec": {"replicas": 3}}), 3),
        ["StaticNodePool: spec.replicas is 3: a static pool has no room for the one node more that a surge needs, so nothing \
             starts; exclude it in nodePoolSelector, or use a pool without spec.replicas"]
    );
    assert_eq!(names(json!({}), json!({"spec": {"replicas": 0}}), 0), ["StaticNodePool"]);
}

#[test]
fn a_pool_that_never_expires_has_no_finding_about_deadlines() {
    for lifetime in ["Never", "soon", "-1h"] {
        let expected = if lifetime == "-1h" { vec!["ANonPositive"] } else { Vec::new() };
        assert_eq!(names(json!({}), template(lifetime, "1h"), 6), expected, "{lifetime}");
    }
    assert_eq!(found(json!({"ageThreshold": "240h"}), template("Never", "1h"), 6), NONE);
}

#[test]
fn the_docs_table_is_the_declaration() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policies.md")).unwrap();
    let (_, table) = docs.split_once("\n| finding | level | meaning |\n|---|---|---|\n").unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let level = |level| if level == Level::Fatal { "fatal" } else { "warn" };
    let declared: Vec<String> =
        FINDINGS.iter().map(|(_, name, severity, meaning)| format!("| `{name}` | {} | {meaning} |", level(*severity))).collect();
    assert_eq!(rows, declared);
}
