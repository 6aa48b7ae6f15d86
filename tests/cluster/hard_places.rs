//! What the API server refuses or changes is known before anything is touched (§2), and a placeholder that is lost, or that
//! asks for more than cpu, still gets its Node.
//!
//! One control plane with a pool for each place; what they ask of each other is nothing.

use std::path::Path;

use control_plane::{Options, Workload};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    chronicle::Chronicle,
    passes::{NAMESPACE, Pass, Passes, annotation},
    policy::{policy, with},
    pools::{LIMIT, pool},
};

/// Pools of one Node with one Pod of 5 cpu; `turns` has two.
const POOLS: [&str; 6] = ["quota", "kept", "turns", "grown", "lost", "gpu"];
const GPU: &str = "example.com/gpu";

#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_server_refuses_or_changes_is_known_before_anything_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let passes = Passes::start(options(folder.path())).await.with(&["--log-format", "json"]);
    let plane = &passes.plane;
    join_all(POOLS.map(|name| fill(&passes, name))).await;
    let chronicle = Chronicle::begin(plane);

    let quota = passes.only_claim("quota").await;
    plane.apply_objects(&[once("quota")]).await.unwrap();
    let none = json!({"kind": "ResourceQuota", "apiVersion": "v1", "spec": {"hard": {"pods": "0"}}});
    refuses_the_placeholder(&passes, &quota, none, "exceeded quota: narrow, requested: pods=1, used: pods=0, limited: pods=0").await;
    // An Event is its own reminder: the log tells what refuses now, the Event what did so first.
    let told = passes.told("SurgeRefused", "exceeded quota: narrow").await;
    assert_eq!(told.len(), 1, "{told:?}");
    let small = json!({"kind": "LimitRange", "apiVersion": "v1", "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    refuses_the_placeholder(&passes, &quota, small, "must be less than or equal to cpu limit of 1").await;
    assert_eq!(passes.count("SurgeRefused").await, 1);
    assert_eq!(chronicle.history().await.values("NodePool", "quota", "active-rotation"), [None]);

    let kept = passes.only_claim("kept").await;
    let first = first_in_turn(&passes).await;
    plane.apply_objects(&forbid("kept", "DELETE", &format!("oldObject.metadata.name != '{kept}'"))).await.unwrap();
    plane.apply_objects(&forbid("turns", "UPDATE", &format!("object.metadata.name != '{first}'"))).await.unwrap();
    plane.apply_objects(&adds_an_agent("grown")).await.unwrap();
    plane.apply_objects(&POOLS.map(once)).await.unwrap();
    foretold(&passes, "kept by its owner").await;
    foretold(&passes, "unwritable 1, eligible 1").await;
    grows(&passes).await;

    one_pass_tells_all(&passes, &kept, &first).await;
    carries_the_extended_resource(&passes).await;
    loses_its_placeholder_twice(&passes).await;
    let success = json!({"success": 1});
    passes.until_totals(&["quota", "turns", "grown", "lost", "gpu"].map(|pool| (pool, success.clone()))).await;
    assert_eq!(chronicle.history().await.values("NodePool", "kept", "active-rotation"), [None]);
    assert_eq!(passes.writes_on("nodeclaims", &first), [""; 0], "the claim that takes no write");

    // Only later is there anyone to make a Node: it surely comes after the attempt began.
    plane.stop_karpenter();
    lift(&passes, "validatingadmissionpolicy", "kept").await;
    passes.until("kept starts", LIMIT, async |_| passes.anchor("kept").await.is_some()).await;
    plane.start_karpenter().unwrap();
    passes.until_totals(&[("kept", success.clone())]).await;
    let history = chronicle.history().await;
    assert_eq!(history.surge_path("kept"), ["provisioned"; 2]);
    for pool in POOLS {
        let [told, was] = history.surge_path(pool);
        assert_eq!(told, was, "{pool}");
        assert_eq!(history.rotations(pool).len(), 1, "{pool}");
    }
    passes.assert_settled(&POOLS.map(|pool| (pool, success.clone()))).await;
    passes.assert_rights_sufficed();
}

/// Nodes of 8 cpu with two devices.
fn options(folder: &Path) -> Options {
    let file = folder.join("instance-types.json");
    let offering = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]},
    ]);
    let types = json!([{
        "name": control_plane::INSTANCE_TYPE, "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "128", GPU: "2"},
        "offerings": [{"Price": 1, "Available": true, "Requirements": offering}],
    }]);
    std::fs::write(&file, types.to_string()).unwrap();
    Options { instance_types: Some(file), ..Options::default() }
}

pub async fn fill(passes: &Passes, name: &str) {
    passes.plane.install(&pool(name)).await.unwrap();
    let nodes = if name == "turns" { 2 } else { 1 };
    let workload = Workload::new(name, name).replicas(nodes).cpu("5");
    let mut objects = workload.objects();
    if name == "gpu" {
        let resources = &mut objects[1]["spec"]["template"]["spec"]["containers"][0]["resources"];
        *resources = json!({"requests": {"cpu": "1", GPU: "2"}, "limits": {GPU: "2"}});
    }
    passes.plane.apply_objects(&objects).await.unwrap();
    passes.plane.wait_for_pods(&workload).await.unwrap();
    passes.plane.wait_for_claims(name, nodes as usize, "Initialized").await.unwrap();
}

/// A policy under which a pool rotates one Node and then rests.
pub fn once(name: &str) -> Value {
    with(policy(name), "surge.cooldownAfter", json!("1h"))
}

/// What a pass would do, rehearsed; it must write nothing.
async fn rehearse(passes: &Passes) -> Pass {
    let written = passes.writes().len();
    let mut command = passes.command();
    command.args(["--dry-run", "--rehearse"]);
    let pass = passes.finish(command).await;
    assert_eq!(pass.code, Some(0), "{}", pass.log);
    assert_eq!(passes.writes().split_off(written), [""; 0], "a rehearsal writes nothing");
    pass
}

/// Waits until a rehearsal says so: what admission is told takes a moment to hold.
pub async fn foretold(passes: &Passes, words: &str) {
    passes
        .plane
        .wait_for(&format!("a rehearsal says {words:?}"), LIMIT, async || {
            let pass = rehearse(passes).await;
            Ok(format!("{}{}", pass.stdout, pass.log).contains(words))
        })
        .await
        .unwrap();
}

/// An object in the program's namespace keeps the placeholder out: nothing starts, and the server's words are told.
async fn refuses_the_placeholder(passes: &Passes, claim: &str, mut narrow: Value, words: &str) {
    narrow["metadata"] = json!({"name": "narrow", "namespace": NAMESPACE});
    passes.plane.apply_objects(&[narrow.clone()]).await.unwrap();
    foretold(passes, words).await;
    let before = passes.marks(claim).await;
    let written = passes.writes().len();
    for pass in passes.idle(2).await {
        let summary = pass.summary("quota");
        assert_eq!(summary["action"], "gated", "{summary}");
        let message = summary["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("no start (refused): No rotation of NodeClaim {claim} starts, ")), "{message}");
        assert!(message.contains(words), "{message}");
    }
    untouched(passes, written, &[claim]).await;
    assert_eq!(passes.marks(claim).await, before);
    assert_eq!(passes.placeholders().await, [""; 0]);
    lift(passes, narrow["kind"].as_str().unwrap(), "narrow").await;
}

/// Nothing was written on these claims, on their Nodes, or on any Pod since then.
pub async fn untouched(passes: &Passes, written: usize, claims: &[&str]) {
    let mut names = Vec::new();
    for claim in claims {
        let node = passes.claim(claim).await.unwrap()["status"]["nodeName"].as_str().unwrap().to_owned();
        names.extend([format!(" nodeclaims {claim}"), format!(" nodes {node}"), format!("pods noderotation-surge-{claim}")]);
    }
    let mut writes = passes.writes().split_off(written);
    writes.retain(|write| names.iter().any(|name| write.ends_with(name)));
    assert_eq!(writes, [""; 0]);
}

pub async fn lift(passes: &Passes, kind: &str, name: &str) {
    let arguments: &[&str] = if kind.starts_with("validating") || kind.starts_with("mutating") { &[] } else { &["--namespace", NAMESPACE] };
    passes.plane.run_kubectl(&[&["delete", kind, name], arguments].concat(), "").await.unwrap();
}

/// The claim of `turns` that would go first.
async fn first_in_turn(passes: &Passes) -> String {
    passes.plane.apply_objects(&[once("turns")]).await.unwrap();
    let pass = rehearse(passes).await;
    let named = pass.stdout.split_once("NodePool turns: anchor the rotation of ").and_then(|(_, rest)| rest.split_once(','));
    named.unwrap_or_else(|| panic!("{}", pass.stdout)).0.to_owned()
}

/// A policy of the cluster's owner about what the program does to NodeClaims.
pub fn forbid(name: &str, operation: &str, allowed: &str) -> [Value; 2] {
    let rule = json!({"apiGroups": ["karpenter.sh"], "apiVersions": ["v1"], "operations": [operation], "resources": ["nodeclaims"]});
    let ours = format!("request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:noderotation'");
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "ours", "expression": ours}],
                "validations": [{"expression": allowed, "message": "kept by its owner"}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

/// A second container in every placeholder of a pool, as a mesh would add.
fn adds_an_agent(pool: &str) -> [Value; 2] {
    let agent = "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{\
        name: 'agent', image: 'registry.invalid/agent', \
        resources: Object.spec.containers.resources{requests: {'cpu': '500m'}}, \
        securityContext: Object.spec.containers.securityContext{allowPrivilegeEscalation: false, \
        capabilities: Object.spec.containers.securityContext.capabilities{drop: ['ALL']}}}}]";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": pool},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "surge", "expression": format!("object.metadata.name.startsWith('noderotation-surge-{pool}-')")}],
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": agent}}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": pool},
            "spec": {"policyName": pool},
        }),
    ]
}

/// Waits until a Pod of that name gets an agent.
async fn grows(passes: &Passes) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "noderotation-surge-grown-probe", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "registry.invalid/pause"}]},
    });
    let arguments = ["create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.containers[*].name}"];
    let grown = async || Ok(passes.plane.run_kubectl(&arguments, &pod.to_string()).await? == "main agent");
    passes.plane.wait_for("a Pod gets an agent", LIMIT, grown).await.unwrap();
}

/// In one pass: `kept` starts nothing, `turns` passes over the claim that takes no write, `grown` starts and tells what the
/// agent adds, `quota` starts now that its place is wide enough.
async fn one_pass_tells_all(passes: &Passes, kept: &str, first: &str) {
    let before = passes.marks(kept).await;
    let written = passes.writes().len();
    let pass = passes.idle(1).await.remove(0);
    for pool in ["quota", "turns", "grown", "lost", "gpu"] {
        assert_eq!(pass.summary(pool)["action"], "start", "{}", pass.log);
    }
    let turns = pass.summary("turns");
    assert_eq!(turns["census"], "unwritable 1, eligible 1", "{turns}");
    let anchor = passes.anchor("turns").await.unwrap();
    assert_ne!(anchor, first, "the next one has its turn");

    let refused = pass.summary("kept");
    assert_eq!(refused["action"], "gated", "{refused}");
    untouched(passes, written, &[kept, first]).await;
    assert_eq!(passes.marks(kept).await, before);
    let told = passes.told("DeleteRefused", kept).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("delete, so that it drains: ") && told[0].contains("kept by its owner"), "{told:?}");

    let grown = passes.told("SurgeMutated", "").await;
    assert_eq!(grown.len(), 1, "{grown:?}");
    assert!(grown[0].ends_with("would not be created as it was sent: cpu: 5 sent, 5500m returned"), "{grown:?}");
}

/// A kubelet refuses the placeholder, and then somebody's Pod preempts it: each time it comes anew, in the same attempt.
async fn loses_its_placeholder_twice(passes: &Passes) {
    let claim = passes.anchor("lost").await.unwrap();
    let placeholder = format!("noderotation-surge-{claim}");
    let started = annotation(&passes.claim(&claim).await.unwrap(), "started-at").unwrap();
    let uid = async || {
        let arguments = ["get", "pod", &placeholder, "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}"];
        passes.plane.run_kubectl(&arguments, "").await.unwrap()
    };
    let mut uids = vec![uid().await];
    let refused = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}});
    let arguments =
        ["patch", "pod", &placeholder, "-n", NAMESPACE, "--subresource=status", "--type=merge", "--patch", &refused.to_string()];
    passes.plane.run_kubectl(&arguments, "").await.unwrap();
    let pass = passes.idle(1).await.remove(0);
    let summary = pass.summary("lost");
    assert_eq!(summary["action"], "await-surge", "{summary}");
    assert!(summary["message"].as_str().unwrap().contains("OutOfcpu"), "{summary}");
    uids.push(uid().await);

    passes.plane.run_kubectl(&["delete", "pod", &placeholder, "-n", NAMESPACE], "").await.unwrap();
    let pass = passes.idle(1).await.remove(0);
    assert_eq!(pass.summary("lost")["action"], "await-surge", "{}", pass.log);
    uids.push(uid().await);
    uids.dedup();
    assert_eq!(uids.len(), 3, "{uids:?}");
    let claim = passes.claim(&claim).await.unwrap();
    assert_eq!(annotation(&claim, "started-at"), Some(started), "the same attempt");
    assert_eq!(annotation(&claim, "retry-count"), None);
}

/// The API server takes an extended resource only with a limit that equals the request.
async fn carries_the_extended_resource(passes: &Passes) {
    let history: Vec<String> = passes.placeholders().await.into_iter().filter(|name| name.starts_with("noderotation-surge-gpu-")).collect();
    let [placeholder] = &history[..] else { panic!("{history:?}") };
    let text = passes.plane.run_kubectl(&["get", "pod", placeholder, "-n", NAMESPACE, "-o", "json"], "").await.unwrap();
    let pod: Value = serde_json::from_str(&text).unwrap();
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!([&resources["requests"][GPU], &resources["limits"][GPU]], ["2", "2"], "{resources}");
    assert_eq!([&resources["requests"]["cpu"], &resources["limits"]["cpu"]], [&json!("1"), &Value::Null], "{resources}");
}
