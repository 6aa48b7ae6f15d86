//! Admission as real clusters have it: a webhook that is down, a policy that strips labels, one that keeps NodePools to another
//! tool, one that lets nobody write Events (cases T24 to T27).

use control_plane::Options;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    chronicle::Chronicle,
    hard_places::{fill, forbid, foretold, lift, once, untouched},
    passes::{Pass, Passes},
    pools::LIMIT,
};

/// Pools of one Node with one Pod of 5 cpu.
const POOLS: [&str; 4] = ["hook", "bare", "owned", "mute"];
const US: &str = "system:serviceaccount:node-rotation-system:noderotation";

#[tokio::test(flavor = "multi_thread")]
async fn t24_admission_that_is_down_strips_or_forbids_costs_no_node_its_peace() {
    let passes = Passes::start(Options::default()).await.with(&["--log-format", "json"]);
    let plane = &passes.plane;
    join_all(POOLS.map(|name| fill(&passes, name))).await;
    let chronicle = Chronicle::begin(plane);
    let mut claims = Vec::new();
    for pool in ["hook", "bare", "owned"] {
        claims.push(passes.only_claim(pool).await);
    }
    plane.apply_objects(&[down("hook")]).await.unwrap();
    plane.apply_objects(&strips("bare")).await.unwrap();
    plane.apply_objects(&keeps_pool("owned")).await.unwrap();
    plane.apply_objects(&silences("mute")).await.unwrap();
    refused(&passes, &["annotate", "nodepool", "owned", "probe=1"], "kept by its owner").await;

    plane.apply_objects(&[once("hook"), once("bare")]).await.unwrap();
    foretold(&passes, "failed calling webhook").await;
    foretold(&passes, "without its label noderotation.io/surge-for").await;
    plane.apply_objects(&[once("owned"), once("mute")]).await.unwrap();
    let written = passes.writes().len();
    let pass = passes.pass().await;
    assert_eq!(pass.code, Some(1), "the pool whose anchor is refused has failed: {}", pass.log);
    says(&pass, "hook", "gated", "failed calling webhook");
    says(&pass, "bare", "gated", "by which passes find it again");
    says(&pass, "owned", "start", "starts the rotation");
    says(&pass, "mute", "start", "starts the rotation");
    untouched(&passes, written, &claims.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (claim, pool) in claims.iter().zip(["hook", "bare", "owned"]) {
        let told = passes.told("SurgeRefused", claim).await;
        assert_eq!(told.len(), 1, "{pool}: {told:?}");
    }
    assert!(passes.told("SurgeRefused", &claims[2]).await[0].contains("kept by its owner"));
    assert_eq!(passes.anchor("owned").await, None);

    // Nobody may tell anything of `mute`: its rotation goes on all the same.
    lift(&passes, "validatingwebhookconfiguration", "hook").await;
    lift(&passes, "mutatingadmissionpolicy", "bare").await;
    lift(&passes, "validatingadmissionpolicy", "owned").await;
    allowed(&passes, &["annotate", "nodepool", "owned", "probe=1"]).await;
    let success = json!({"success": 1});
    passes.until_totals(&POOLS.map(|pool| (pool, success.clone()))).await;
    assert_eq!(passes.told_about("mute").await, [""; 0]);
    let history = chronicle.history().await;
    for pool in POOLS {
        assert_eq!(history.rotations(pool).len(), 1, "{pool}");
        assert!(history.claims_max(pool) <= 2, "{pool}");
    }
    passes.assert_settled(&POOLS.map(|pool| (pool, success.clone()))).await;
    passes.assert_rights_sufficed();
}

fn says(pass: &Pass, pool: &str, action: &str, words: &str) {
    let summary = pass.summary(pool);
    assert_eq!(summary["action"], action, "{summary}");
    assert!(summary["message"].as_str().unwrap().contains(words), "{summary}");
}

/// T24: a webhook for the placeholders of a pool at whose address nobody is, and which must be asked.
fn down(pool: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": pool},
        "webhooks": [{
            "name": "guard.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 2,
            "clientConfig": {"url": "https://127.0.0.1:9/guard"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "matchConditions": [{"name": "surge", "expression": surges(pool)}],
        }],
    })
}

/// T25: a policy that takes away labels it doesn't know.
fn strips(pool: &str) -> [Value; 2] {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let remove = "[JSONPatch{op: 'remove', path: '/metadata/labels/noderotation.io~1surge-for'}]";
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": pool},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "surge", "expression": surges(pool)}],
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": remove}}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": pool},
            "spec": {"policyName": pool},
        }),
    ]
}

fn surges(pool: &str) -> String {
    format!("object.metadata.name.startsWith('noderotation-surge-{pool}-')")
}

/// T26: only the cluster's own tool may write this NodePool.
fn keeps_pool(pool: &str) -> [Value; 2] {
    let mut policy = forbid(pool, "UPDATE", &format!("object.metadata.name != '{pool}'"));
    policy[0]["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = json!(["nodepools"]);
    policy
}

/// T27: no Event about this NodePool.
fn silences(pool: &str) -> [Value; 2] {
    let mut policy = forbid(pool, "CREATE", &format!("!has(object.regarding) || object.regarding.name != '{pool}'"));
    policy[0]["spec"]["matchConstraints"]["resourceRules"][0] =
        json!({"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["events"]});
    policy
}

async fn as_us(passes: &Passes, arguments: &[&str]) -> Result<String, String> {
    let arguments = [arguments, &["--as", US, "--dry-run=server", "--overwrite"]].concat();
    passes.plane.run_kubectl(&arguments, "").await.map_err(|error| error.to_string())
}

async fn refused(passes: &Passes, arguments: &[&str], words: &str) {
    let is_refused = async || Ok(as_us(passes, arguments).await.is_err_and(|error| error.contains(words)));
    passes.plane.wait_for(&format!("{arguments:?} is refused"), LIMIT, is_refused).await.unwrap();
}

async fn allowed(passes: &Passes, arguments: &[&str]) {
    passes.plane.wait_for(&format!("{arguments:?} is allowed"), LIMIT, async || Ok(as_us(passes, arguments).await.is_ok())).await.unwrap();
}
