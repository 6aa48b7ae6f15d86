//! The rights of a pass are enough, and each of them is needed.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use control_plane::{Options, Pool, Workload};
use serde_json::{Value, json};

use crate::{
    list,
    passes::{Pass, Passes},
    policy::{policy, with},
    root,
};

const ACCOUNT: &str = "system:serviceaccount:node-rotation-system:noderotation";

/// One verb of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    /// The namespace of the Role; none for the ClusterRole.
    namespace: Option<String>,
    role: String,
    rule: usize,
    group: String,
    resource: String,
    verb: String,
}

impl Right {
    /// What the API server says when it is missing.
    fn refusal(&self) -> String {
        format!("cannot {} resource \"{}\"", self.verb, self.resource)
    }

    /// As the audit log has it.
    fn used(&self) -> (String, String, String) {
        (self.verb.clone(), self.group.clone(), self.resource.clone())
    }

    fn args(&self) -> Vec<String> {
        match &self.namespace {
            Some(namespace) => vec!["role".into(), self.role.clone(), format!("--namespace={namespace}")],
            None => vec!["clusterrole".into(), self.role.clone()],
        }
    }
}

/// The shipped roles, from their file.
fn roles() -> Vec<Value> {
    use serde::Deserialize;
    let text = std::fs::read_to_string(root().join("kustomize/without-cronjob/rbac.yaml")).unwrap();
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    documents.filter(|object| object["rules"].is_array()).collect()
}

fn rights() -> Vec<Right> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut rights = Vec::new();
    for role in roles() {
        for (rule, content) in role["rules"].as_array().unwrap().iter().enumerate() {
            for resource in content["resources"].as_array().unwrap() {
                rights.extend(content["verbs"].as_array().unwrap().iter().map(|verb| Right {
                    namespace: role["metadata"]["namespace"].as_str().map(str::to_owned),
                    role: text(&role["metadata"]["name"]),
                    rule,
                    group: text(&content["apiGroups"][0]),
                    resource: text(resource),
                    verb: text(verb),
                }));
            }
        }
    }
    rights
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_one_right_passes_fail_and_name_it() {
    let options = Options { pod_ready_delay: Duration::from_secs(2), ..Options::default() };
    let passes = Passes::start(options).await;
    forbidden(&passes).await;
    let pool = Pool::new("web").label("rotate", "web").expire_after("720h");
    passes.plane.part_fill(&pool, Workload::new("web", "web"), 1).await.unwrap();
    passes.plane.apply_objects(&[slow_drains()]).await.unwrap();

    let rotated = async |_: &_| passes.totals("web").await["success"].as_u64() >= Some(1);
    passes.until("a rotation has succeeded", Duration::from_secs(300), rotated).await;
    surge_that_fails(&passes, async |passes| passes.totals("web").await["failure"].as_u64() >= Some(1)).await;
    let (used, refused) = audited(&passes);
    assert_eq!(refused, BTreeSet::new(), "the shipped rights are enough");
    let unused: Vec<Right> = rights().into_iter().filter(|right| !used.contains(&right.used())).collect();
    assert_eq!(unused, [], "each shipped right is used");

    for right in rights() {
        let start = Instant::now();
        take_away(&passes, &right).await;
        let told = missed(&passes, &right).await;
        println!("without {right:?}: {told:?} after {:?}", start.elapsed());
        give_back(&passes).await;
    }
}

/// A surge whose node never becomes Ready, until the condition holds; new nodes become Ready again afterwards.
async fn surge_that_fails(passes: &Passes, mut done: impl AsyncFnMut(&Passes) -> bool) {
    passes.plane.hold_new_nodes().unwrap();
    passes.plane.apply_objects(&[with(slow_drains(), "surge.readyTimeout", json!("8s"))]).await.unwrap();
    let start = Instant::now();
    while !done(passes).await {
        assert!(start.elapsed() < Duration::from_secs(180), "no surge fails: {}", passes.plane.describe_state().await);
        passes.pass().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    passes.plane.release_new_nodes().unwrap();
    passes.plane.apply_objects(&[slow_drains()]).await.unwrap();
}

/// Every drain is longer than estimated, so that what blocks it is looked for; what failed is soon tried again.
fn slow_drains() -> Value {
    with(with(policy("web"), "surge.drainEstimate", json!("1s")), "surge.retryBackoff", json!("5s"))
}

/// What the program asked for so far: what it was granted, and what it was refused.
type Asked = BTreeSet<(String, String, String)>;
fn audited(passes: &Passes) -> (Asked, Asked) {
    let (mut granted, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let log = std::fs::read_to_string(passes.plane.audit_log()).unwrap();
    // The last line may be in the making.
    for event in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if event["user"]["username"] != ACCOUNT || event["objectRef"].is_null() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let resource = [text(&object["resource"]), text(&object["subresource"])].join("/");
        let asked = (text(&event["verb"]), text(&object["apiGroup"]), resource.trim_end_matches('/').to_owned());
        if event["responseStatus"]["code"] == 403 {
            refused.insert(asked)
        } else {
            granted.insert(asked)
        };
    }
    (granted, refused)
}

async fn take_away(passes: &Passes, right: &Right) {
    let role = roles()
        .into_iter()
        .find(|role| role["metadata"]["name"] == *right.role && role["metadata"]["namespace"].as_str() == right.namespace.as_deref());
    let mut verbs = role.unwrap()["rules"][right.rule]["verbs"].as_array().unwrap().clone();
    verbs.retain(|verb| *verb != *right.verb);
    let path = format!("/rules/{}", right.rule);
    let patch = match verbs.is_empty() {
        true => json!([{"op": "remove", "path": path}]),
        false => json!([{"op": "replace", "path": format!("{path}/verbs"), "value": verbs}]),
    };
    let (patch, args) = (format!("--patch={patch}"), right.args());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    passes.plane.run_kubectl(&[&["patch", "--type=json", patch.as_str()], &args[..]].concat(), "").await.unwrap();
    if right.resource == "leases" && right.verb == "create" {
        passes.plane.run_kubectl(&["delete", "lease", "noderotation", "--namespace=node-rotation-system"], "").await.unwrap();
    }
}

/// Runs passes until one names the missing right; answers how it ended.
async fn missed(passes: &Passes, right: &Right) -> Option<i32> {
    let refused = |pass: &Pass| pass.log.replace('\\', "").contains(&right.refusal());
    let told = std::sync::Mutex::new(None);
    let once = async |passes: &Passes| {
        let pass = passes.pass().await;
        if refused(&pass) {
            *told.lock().unwrap() = Some(pass.code);
        }
        told.lock().unwrap().is_some()
    };
    let only_in_trouble = right.namespace.as_deref() == Some("node-rotation-system") && right.resource == "events";
    if only_in_trouble {
        surge_that_fails(passes, once).await;
    } else {
        let start = Instant::now();
        while !once(passes).await {
            assert!(start.elapsed() < Duration::from_secs(120), "nothing misses {right:?}: {}", passes.plane.describe_state().await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    told.into_inner().unwrap().flatten()
}

/// Gives everything back, and waits until a pass does everything again.
async fn give_back(passes: &Passes) {
    passes.plane.apply_kustomization(&root().join("kustomize/without-cronjob")).await.unwrap();
    let start = Instant::now();
    loop {
        let pass = passes.pass().await;
        if pass.code == Some(0) && !pass.log.contains("cannot ") {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{}", pass.log);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// What nobody would want it to do, asked of the API server itself.
async fn forbidden(passes: &Passes) {
    let never = [
        "get secrets",
        "list secrets",
        "list secrets -n node-rotation-system",
        "get configmaps -n node-rotation-system",
        "delete nodes",
        "create nodes",
        "delete pods",
        "create pods",
        "patch pods",
        "delete pods -n kube-system",
        "create pods --subresource=eviction",
        "get pods -n default",
        "create pods --subresource=exec -n node-rotation-system",
        "get pods --subresource=log -n node-rotation-system",
        "patch pods -n node-rotation-system",
        "create nodeclaims.karpenter.sh",
        "delete nodepools.karpenter.sh",
        "patch nodepools.karpenter.sh --subresource=status",
        "patch nodes --subresource=status",
        "deletecollection nodeclaims.karpenter.sh",
        "patch rotationpolicies.noderotation.io",
        "create rotationpolicies.noderotation.io",
        "patch clusterroles.rbac.authorization.k8s.io",
        "escalate clusterroles.rbac.authorization.k8s.io",
        "impersonate users",
        "create serviceaccounts --subresource=token -n node-rotation-system",
        "patch leases.coordination.k8s.io/other -n node-rotation-system",
        "create leases.coordination.k8s.io -n kube-system",
        "patch cronjobs.batch -n node-rotation-system",
        "watch nodes",
        "delete events -n default",
    ];
    for question in never {
        let args: Vec<&str> = ["auth", "can-i", "--as", ACCOUNT].into_iter().chain(question.split(' ')).collect();
        // `no` is exit code 1.
        let answer = passes.plane.run_kubectl(&args, "").await.err().map(|error| error.to_string()).unwrap_or_else(|| "yes".into());
        assert!(answer.contains("\nno"), "{question}: {answer}");
    }
    assert_eq!(
        list(&passes.plane, &["rolebindings", "--namespace=kube-system"])
            .await
            .iter()
            .filter(|one| one["metadata"]["name"] == "noderotation")
            .count(),
        0
    );
}
