//! What a pass may write (§5), judged from the stored objects and the request alone: on which object, which fields, and
//! under what conditions. A dry run is judged by its shape only, since nothing has been prepared for it.

use serde_json::{Map, Value};

use super::super::fake::{Store, Write};
use crate::{
    api::{
        keys,
        time::{Time, parse_annotation},
    },
    policy::{
        Policy, read,
        resolve::{Governance, governance},
    },
    schedule::window::Schedule,
    surge::surge_for_label,
};

const NAMESPACE: &str = "rotation";

/// What is wrong with a write; `None` where it is allowed.
pub fn judge(store: &Store, write: &Write<'_>) -> Option<String> {
    ruling(store, write).err()
}

type Ruling = Result<(), String>;

fn ruling(store: &Store, write: &Write<'_>) -> Ruling {
    let parts: Vec<&str> = write.path.trim_start_matches('/').split('/').collect();
    match (write.method, parts.as_slice()) {
        ("POST", ["apis", "events.k8s.io", "v1", "namespaces", "default", "events"]) => Ok(()),
        (_, ["apis", "coordination.k8s.io", "v1", "namespaces", NAMESPACE, "leases", ..]) => Ok(()),
        ("PATCH", ["apis", "noderotation.io", "v1alpha1", "rotationpolicies", _, "status"]) => only(write.body, &["metadata", "status"]),
        ("PATCH", ["apis", "karpenter.sh", "v1", "nodepools", name]) => pool(store, write, name),
        ("PATCH", ["apis", "karpenter.sh", "v1", "nodeclaims", name]) => claim(store, write, name),
        ("DELETE", ["apis", "karpenter.sh", "v1", "nodeclaims", name]) => delete_claim(store, write, name),
        ("PATCH", ["api", "v1", "nodes", name]) => node(store, write, name),
        ("POST", ["api", "v1", "namespaces", NAMESPACE, "pods"]) => create(store, write),
        ("DELETE", ["api", "v1", "namespaces", NAMESPACE, "pods", _]) => delete_pod(store, write),
        _ => Err("a write that is none of ours".into()),
    }
}

fn must(holds: bool, else_wrong: &str) -> Ruling {
    if holds { Ok(()) } else { Err(else_wrong.into()) }
}

fn only(value: &Value, allowed: &[&str]) -> Ruling {
    let keys: Vec<&String> = value.as_object().into_iter().flat_map(Map::keys).filter(|key| !allowed.contains(&key.as_str())).collect();
    must(keys.is_empty(), &format!("fields that are not ours: {keys:?}"))
}

/// The object as it is stored, and that the patch is conditional on it.
fn stored<'a>(store: &'a Store, write: &Write<'_>) -> Result<&'a Value, String> {
    let object = store.objects.get(write.path).ok_or("a write on nothing")?;
    let version = &write.body["metadata"]["resourceVersion"];
    must(write.method != "PATCH" || (version.is_string() && *version == object["metadata"]["resourceVersion"]), "an unconditional patch")?;
    let uid = &write.body["preconditions"]["uid"];
    must(write.method != "DELETE" || (uid.is_string() && *uid == object["metadata"]["uid"]), "an unconditional delete")?;
    Ok(object)
}

fn note<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

fn noted<'a>(write: &'a Write<'_>) -> impl Iterator<Item = (&'a String, &'a Value)> {
    write.body["metadata"]["annotations"].as_object().into_iter().flatten()
}

/// Only annotations, of those that we may write on this kind.
fn annotations(write: &Write<'_>, kind: &str, besides: &[&str]) -> Ruling {
    only(write.body, &["metadata"])?;
    only(&write.body["metadata"], &["resourceVersion", "annotations"])?;
    for (key, value) in noted(write) {
        must(value.is_string() || value.is_null(), "an annotation that is no text")?;
        let ours = keys::ANNOTATIONS.iter().any(|of| of.key == key && of.on.split(", ").any(|on| on == kind));
        must(ours && !besides.contains(&key.as_str()), &format!("the annotation {key} is not ours to write on a {kind}"))?;
    }
    Ok(())
}

fn pool(store: &Store, write: &Write<'_>, name: &str) -> Ruling {
    annotations(write, "NodePool", &[keys::FREEZE])?;
    let pool = stored(store, write)?;
    let Some(claim) = write.body["metadata"]["annotations"][keys::ACTIVE_ROTATION].as_str() else { return Ok(()) };
    must(note(pool, keys::ACTIVE_ROTATION).is_none(), "a second anchor")?;
    must(pool["metadata"]["deletionTimestamp"].as_str().is_none(), "a start in a pool that is being deleted")?;
    must(pool["spec"]["replicas"].as_i64().is_none(), "a start in a static pool")?;
    if let Some(freeze) = note(pool, keys::FREEZE) {
        must(parse_annotation(freeze).is_some_and(|until| until <= time(store)), "a start although frozen")?;
    }
    let claim = object(store, "nodeclaims", claim).ok_or("a start of a claim that isn't there")?;
    must(claim["metadata"]["labels"][keys::NODEPOOL_LABEL] == *name, "a start of another pool's claim")?;
    must(claim["metadata"]["deletionTimestamp"].as_str().is_none(), "a start of a claim that is being deleted")?;
    governed(store, pool)
}

/// By exactly one policy, in whose window it is.
fn governed(store: &Store, pool: &Value) -> Ruling {
    let policies = of_kind(store, "rotationpolicies").map(read::policy).map(|policy| (policy.name.clone(), policy)).collect();
    let labels = pool["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
    let Governance::Policy(policy) = governance(&policies, &labels) else { return Err("a start that no one policy governs".into()) };
    let Policy { settings, .. } = policy;
    must(policy.is_valid() && !settings.suspend, "a start under an invalid or suspended policy")?;
    let schedule = Schedule::under(settings, time(store));
    must(schedule.open_at(time(store)).is_some(), "a start outside of every window")?;
    must(schedule.blackouts.covering(time(store)).is_none(), "a start in a blackout")
}

fn claim(store: &Store, write: &Write<'_>, name: &str) -> Ruling {
    annotations(write, "NodeClaim", &[keys::ROTATE_REQUESTED])?;
    let claim = stored(store, write)?;
    if write.dry_run {
        return Ok(());
    }
    let ours = [keys::STATE, keys::STARTED_AT, keys::SURGE_CLAIM, keys::WRITTEN_BY].iter().any(|key| note(claim, key).is_some());
    must(ours || anchor_of(store, name).is_some(), "a write on a claim that no rotation is about")?;
    let begins = write.body["metadata"]["annotations"][keys::STATE] == "pending";
    must(!begins || anchor_of(store, name).is_some(), "an attempt without an anchor")
}

/// The old claim once it drains, or one that the attempt brought up and nobody uses.
fn delete_claim(store: &Store, write: &Write<'_>, name: &str) -> Ruling {
    let claim = stored(store, write)?;
    must(claim["metadata"]["deletionTimestamp"].as_str().is_none(), "a second delete")?;
    if write.dry_run {
        return Ok(());
    }
    if let Some(pool) = anchor_of(store, name) {
        must(note(claim, keys::STATE) == Some("draining"), "a delete of a claim that does not drain")?;
        must(claim["metadata"]["labels"][keys::NODEPOOL_LABEL] == pool["metadata"]["name"], "a delete of another pool's claim")?;
        return must(note(pool, keys::ACTIVE_ROTATION_STATE) == Some("draining"), "a delete before the mirror");
    }
    let pool = claim["metadata"]["labels"][keys::NODEPOOL_LABEL].as_str().unwrap_or_default();
    let pool = object(store, "nodepools", pool).ok_or("a delete of a claim of no pool")?;
    let old = note(pool, keys::ACTIVE_ROTATION).and_then(|old| object(store, "nodeclaims", old));
    let old = old.ok_or("a delete of a claim beside no rotation")?;
    let started = note(old, keys::STARTED_AT).and_then(parse_annotation);
    let created = claim["metadata"]["creationTimestamp"].as_str().and_then(parse_annotation);
    must(started.zip(created).is_some_and(|(started, created)| created >= started), "a delete of a claim older than the attempt")?;
    let node = claim["status"]["nodeName"].as_str().filter(|node| !node.is_empty()).ok_or("a delete of a claim without a Node")?;
    let others = of_kind(store, "pods").filter(|pod| pod["spec"]["nodeName"] == node && is_others(pod, old));
    must(others.count() == 0, "a delete of a Node that others use")
}

/// A Pod that is neither ours nor a part of the node.
fn is_others(pod: &Value, old: &Value) -> bool {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let ours = pod["metadata"]["labels"][keys::SURGE_FOR].is_string()
        && note(pod, keys::SURGE_FOR).map_or_else(|| pod["metadata"]["labels"][keys::SURGE_FOR] == *name, |of| of == name);
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let daemon = owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"));
    let mirror = note(pod, "kubernetes.io/config.mirror").is_some();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    !(ours || daemon || mirror || ended)
}

fn node(store: &Store, write: &Write<'_>, name: &str) -> Ruling {
    let body = write.body;
    only(body, &["metadata", "spec"])?;
    only(&body["metadata"], &["resourceVersion", "annotations", "labels"])?;
    only(&body["metadata"]["labels"], &[keys::MARKED])?;
    only(&body["spec"], &["unschedulable"])?;
    let marks = [keys::SURGE_FOR, keys::DO_NOT_DISRUPT_OWNED, keys::DO_NOT_DISRUPT_WAS, keys::CORDONED, keys::DO_NOT_DISRUPT];
    only(&body["metadata"]["annotations"], &marks)?;
    let node = stored(store, write)?;
    let new = |key: &str| body["metadata"]["annotations"].get(key);
    let owned = note(node, keys::DO_NOT_DISRUPT_OWNED) == Some("true");
    match new(keys::DO_NOT_DISRUPT) {
        None => {}
        Some(value) if *value == "true" && new(keys::DO_NOT_DISRUPT_OWNED).is_some_and(|owned| *owned == "true") => {
            let was = note(node, keys::DO_NOT_DISRUPT);
            must(was.is_none() || new(keys::DO_NOT_DISRUPT_WAS).and_then(Value::as_str) == was, "the operator's do-not-disrupt is lost")?;
        }
        Some(value) => {
            must(owned && note(node, keys::DO_NOT_DISRUPT) == Some("true"), "an operator's do-not-disrupt is changed")?;
            must(value.as_str() == note(node, keys::DO_NOT_DISRUPT_WAS), "another value than the operator's is put back")?;
        }
    }
    match body["spec"].get("unschedulable") {
        None => {}
        Some(Value::Bool(true)) => must(new(keys::CORDONED).is_some_and(|ours| *ours == "true"), "a cordon that is not noted")?,
        Some(_) => must(note(node, keys::CORDONED) == Some("true"), "an operator's cordon is lifted")?,
    }
    if write.dry_run {
        return Ok(());
    }
    let marked = marks[..4].iter().any(|key| note(node, key).is_some()) || node["metadata"]["labels"][keys::MARKED].is_string();
    let anchored = |node: &Value| {
        anchors(store).any(|(pool, claim)| {
            let own = object(store, "nodeclaims", claim).is_some_and(|claim| claim["status"]["nodeName"] == *name);
            own || node["metadata"]["labels"][keys::NODEPOOL_LABEL] == pool["metadata"]["name"]
        })
    };
    must(marked || anchored(node), "a write on a Node that no rotation is about")
}

fn create(store: &Store, write: &Write<'_>) -> Ruling {
    let meta = &write.body["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    must(name.starts_with(keys::PLACEHOLDER_PREFIX) && name.len() <= 253, "a Pod with another name")?;
    must(meta["namespace"] == NAMESPACE, "a Pod in another namespace")?;
    let claim = note(write.body, keys::SURGE_FOR).ok_or("a placeholder of no claim")?;
    must(meta["labels"][keys::SURGE_FOR] == *surge_for_label(claim), "a placeholder with another label")?;
    let requests = &write.body["spec"]["containers"][0]["resources"]["requests"];
    let is_whole = |value: &Value| value.as_str().is_some_and(|text| !text.starts_with('-'));
    must(requests.as_object().is_none_or(|requests| requests.values().all(is_whole)), "a negative request")?;
    must(write.dry_run || anchor_of(store, claim).is_some(), "a placeholder without an anchor")
}

fn delete_pod(store: &Store, write: &Write<'_>) -> Ruling {
    let pod = stored(store, write)?;
    must(pod["metadata"]["labels"][keys::SURGE_FOR].is_string(), "a delete of a Pod that is not ours")
}

fn time(store: &Store) -> Time {
    store.now.unwrap_or_default()
}

fn of_kind<'a>(store: &'a Store, plural: &'a str) -> impl Iterator<Item = &'a Value> + 'a {
    let within = format!("/{plural}/");
    store.objects.iter().filter(move |(path, _)| path.contains(&within)).map(|(_, object)| object)
}

fn object<'a>(store: &'a Store, plural: &str, name: &str) -> Option<&'a Value> {
    store.objects.get(&format!("/apis/karpenter.sh/v1/{plural}/{name}"))
}

/// Pools with the claims that their anchors name.
fn anchors(store: &Store) -> impl Iterator<Item = (&Value, &str)> {
    of_kind(store, "nodepools").filter_map(|pool| Some((pool, note(pool, keys::ACTIVE_ROTATION)?)))
}

/// The pool whose anchor names this claim.
fn anchor_of<'a>(store: &'a Store, claim: &str) -> Option<&'a Value> {
    anchors(store).find(|(_, of)| *of == claim).map(|(pool, _)| pool)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        kube::fuzz::generate,
        rotation::tests::fleet::{ago, days, fleet, mins, now},
    };

    /// A claim that is due, one that is not, the Node of the first; then what the test changes.
    fn store(change: impl FnOnce(&mut Store)) -> Store {
        let fleet = fleet().claim("a", |claim| claim).claim("c", |claim| claim.age(days(1)));
        let mut store = Store::default();
        store.now = Some(now());
        generate::paths(&fleet).into_iter().for_each(|(path, object)| store.put(&path, object));
        change(&mut store);
        store
    }

    fn annotate(store: &mut Store, path: &str, notes: Value) {
        let mut object = store.objects[path].clone();
        for (key, value) in notes.as_object().unwrap() {
            object["metadata"]["annotations"][key] = value.clone();
        }
        store.put(path, object);
    }

    fn patched(store: &Store, path: &str, mut body: Value) -> Option<String> {
        body["metadata"]["resourceVersion"] = store.objects[path]["metadata"]["resourceVersion"].clone();
        judge(store, &Write { method: "PATCH", path, dry_run: false, body: &body })
    }

    fn notes(notes: Value) -> Value {
        json!({"metadata": {"annotations": notes}})
    }

    const POOL: &str = "/apis/karpenter.sh/v1/nodepools/web";
    const A: &str = "/apis/karpenter.sh/v1/nodeclaims/a";
    const C: &str = "/apis/karpenter.sh/v1/nodeclaims/c";
    const NODE: &str = "/api/v1/nodes/node-a";

    #[test]
    fn a_start_is_judged_by_windows_freezes_policies_and_its_claim() {
        let anchor = |claim: &str| notes(json!({keys::ACTIVE_ROTATION: claim}));
        assert_eq!(patched(&store(|_| ()), POOL, anchor("a")), None);
        let wrong = |claim: &str, change: fn(&mut Store)| patched(&store(change), POOL, anchor(claim)).unwrap_or_default();
        assert_eq!(wrong("nobody", |_| ()), "a start of a claim that isn't there");
        assert_eq!(wrong("a", |store| annotate(store, POOL, json!({keys::ACTIVE_ROTATION: "c"}))), "a second anchor");
        assert_eq!(wrong("a", |store| annotate(store, POOL, json!({keys::FREEZE: "tomorrow"}))), "a start although frozen");
        assert_eq!(wrong("a", |store| annotate(store, POOL, json!({keys::FREEZE: "2099-01-01T00:00:00Z"}))), "a start although frozen");
        assert_eq!(wrong("a", |store| store.now = parse_annotation("2026-12-02T07:00:00Z")), "a start outside of every window");
        assert_eq!(
            wrong("a", |store| store.objects.retain(|path, _| !path.contains("rotationpolicies"))),
            "a start that no one policy governs"
        );
        assert_eq!(
            patched(&store(|_| ()), POOL, notes(json!({keys::FREEZE: null}))).unwrap(),
            "the annotation noderotation.io/freeze is not ours to write on a NodePool"
        );
        assert_eq!(patched(&store(|_| ()), POOL, json!({"spec": {"limits": null}})).unwrap(), "fields that are not ours: [\"spec\"]");
    }

    #[test]
    fn a_claim_is_written_for_its_rotation_and_deleted_once_it_drains() {
        let pending = notes(json!({keys::STATE: "pending"}));
        let anchored =
            |store: &mut Store| annotate(store, POOL, json!({keys::ACTIVE_ROTATION: "a", keys::ACTIVE_ROTATION_STATE: "draining"}));
        assert_eq!(patched(&store(anchored), A, pending.clone()), None);
        assert_eq!(patched(&store(anchored), C, pending.clone()).unwrap(), "a write on a claim that no rotation is about");
        let delete = |store: &Store, path: &str, uid: &str| {
            judge(store, &Write { method: "DELETE", path, dry_run: false, body: &json!({"preconditions": {"uid": uid}}) })
                .unwrap_or_default()
        };
        let draining = |store: &mut Store| {
            anchored(store);
            annotate(store, A, json!({keys::STATE: "draining", keys::STARTED_AT: ago(mins(5))}));
        };
        assert_eq!(delete(&store(draining), A, "uid-a"), "");
        assert_eq!(delete(&store(draining), A, "uid-b"), "an unconditional delete");
        assert_eq!(delete(&store(anchored), A, "uid-a"), "a delete of a claim that does not drain");
        assert_eq!(delete(&store(draining), C, "uid-c"), "a delete of a claim older than the attempt");
        assert_eq!(delete(&store(|_| ()), A, "uid-a"), "a delete of a claim beside no rotation");
    }

    #[test]
    fn a_node_gets_our_marks_and_keeps_the_operators() {
        let anchored = |store: &mut Store| annotate(store, POOL, json!({keys::ACTIVE_ROTATION: "a"}));
        let freeze = notes(json!({keys::DO_NOT_DISRUPT: "true", keys::DO_NOT_DISRUPT_OWNED: "true", keys::SURGE_FOR: "a"}));
        assert_eq!(patched(&store(anchored), NODE, freeze.clone()), None);
        assert_eq!(patched(&store(|_| ()), NODE, freeze.clone()).unwrap(), "a write on a Node that no rotation is about");
        let operators = |store: &mut Store| {
            anchored(store);
            annotate(store, NODE, json!({keys::DO_NOT_DISRUPT: "30m"}));
        };
        assert_eq!(patched(&store(operators), NODE, freeze).unwrap(), "the operator's do-not-disrupt is lost");
        assert_eq!(
            patched(&store(operators), NODE, notes(json!({keys::DO_NOT_DISRUPT: null}))).unwrap(),
            "an operator's do-not-disrupt is changed"
        );
        assert_eq!(patched(&store(anchored), NODE, json!({"spec": {"unschedulable": null}})).unwrap(), "an operator's cordon is lifted");
        assert_eq!(patched(&store(anchored), NODE, json!({"spec": {"unschedulable": true}})).unwrap(), "a cordon that is not noted");
    }
}
