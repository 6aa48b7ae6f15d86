//! The shell on a real API server, under the rights that are shipped: what no fake can prove.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where something unexpected happens")]

use std::{collections::BTreeSet, path::Path, time::Duration};

use control_plane::{ControlPlane, Options, Pool};
use k8s_openapi::api::core::v1::PodSpec;
use noderotation::{
    api::{events::Reason, keys, pod::Pod},
    cluster::{Cluster, Failure},
    kube::{
        connect::{Target, connect},
        preflight::PreflightError,
        session::{Session, Terms},
        stop::Stop,
    },
    rotation::{
        effect::{Effect, End, Outcome, Owner},
        notice::{Notice, Regarding},
        state::State,
    },
    view::{Answer, Need, Rehearsal, View},
};
use serde_json::json;

async fn open(kubeconfig: &Path) -> Result<Session, PreflightError> {
    let target = Target { kubeconfig: Some(kubeconfig.into()), ..Target::default() };
    let terms =
        Terms { namespace: keys::DEFAULT_NAMESPACE.into(), deadline: Duration::from_secs(50), request_timeout: None, stop: Stop::never() };
    Session::open(connect(&target).await.unwrap(), terms).await
}

async fn lease(plane: &ControlPlane) -> serde_json::Value {
    let text = plane.run_kubectl(&["get", "lease", "noderotation", "-n", keys::DEFAULT_NAMESPACE, "-o", "json"], "").await.unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["spec"].clone()
}

async fn landed(session: &Session, effect: Effect) {
    let outcome = session.apply(&effect).await;
    assert!(matches!(outcome, Ok(Outcome::Landed { .. })), "{effect:?}: {outcome:?}");
    let again = session.apply(&effect).await;
    assert!(!matches!(again, Ok(Outcome::Landed { .. } | Outcome::Refused { .. }) | Err(_)), "{effect:?} again: {again:?}");
}

#[tokio::test]
async fn the_shell_reads_and_writes_under_the_shipped_rights() {
    let plane = ControlPlane::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await.unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));

    // Without our CRD.
    let missing = open(&plane.kubeconfig()).await.err();
    assert!(
        matches!(&missing, Some(PreflightError::NotServed { resource, .. }) if resource.starts_with("rotationpolicies")),
        "{missing:?}"
    );

    plane.apply_kustomization(&root.join("crds")).await.unwrap();
    plane.apply_kustomization(&root.join("kustomize/without-cronjob")).await.unwrap();
    plane.part_filled_fleet(&Pool::new("web"), 2).await.unwrap();
    let kubeconfig = plane.kubeconfig_for(keys::DEFAULT_NAMESPACE, keys::PROGRAM).await.unwrap();

    leases(&plane, &kubeconfig).await;
    broken_leases(&plane, &kubeconfig).await;
    let mut session = open(&kubeconfig).await.unwrap();
    assert_eq!(session.take_lease(Duration::ZERO).await, Ok(None));
    let (claim, uid, node) = reads(&session).await;
    writes(&session, &claim, &node).await;
    events(&plane, &session, &claim, &uid).await;
    rehearsals(&plane, &session, &claim, &uid, &node).await;
    session.close().await;
    assert_eq!(lease(&plane).await["holderIdentity"], "");
    let audit = std::fs::read_to_string(plane.audit_log()).unwrap();
    assert!(audit.contains(concat!("\"userAgent\":\"noderotation/", env!("CARGO_PKG_VERSION"))));
}

async fn leases(plane: &ControlPlane, kubeconfig: &Path) {
    let (mut first, mut second) = (open(kubeconfig).await.unwrap(), open(kubeconfig).await.unwrap());
    assert_eq!(first.take_lease(Duration::ZERO).await, Ok(None));
    let held = second.take_lease(Duration::ZERO).await.unwrap().unwrap();
    let before = lease(plane).await;
    assert_eq!(before["holderIdentity"], held.by);
    // Renewed in the background.
    let mut after = lease(plane).await;
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while after["renewTime"].as_str() <= before["renewTime"].as_str() {
        assert!(std::time::Instant::now() < patience, "never renewed: {after}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        after = lease(plane).await;
    }
    assert_eq!(after["acquireTime"], before["acquireTime"]);
    let anchor = Effect::Anchor { pool: "web".into(), claim: "x".into(), at: second.now(), failed_at: None };
    assert!(matches!(second.apply(&anchor).await, Err(Failure::LeaseLost(_))));
    first.close().await;
    assert_eq!(second.take_lease(Duration::from_secs(3)).await, Ok(None));
    second.close().await;
}

/// The broken records that an API server stores, and those that it does not.
async fn broken_leases(plane: &ControlPlane, kubeconfig: &Path) {
    let store = async |metadata: serde_json::Value, spec: serde_json::Value| {
        let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
        lease["metadata"]["name"] = json!("noderotation");
        lease["metadata"]["namespace"] = json!(keys::DEFAULT_NAMESPACE);
        plane.run_kubectl(&["replace", "--validate=false", "-f", "-"], &lease.to_string()).await.map_err(|error| error.to_string())
    };
    let take = async |patience: u64| {
        let mut session = open(kubeconfig).await.unwrap();
        let held = session.take_lease(Duration::from_secs(patience)).await.unwrap();
        session.close().await;
        held
    };
    for (field, value) in [
        ("leaseDurationSeconds", json!(0)),
        ("leaseDurationSeconds", json!(-20)),
        ("leaseDurationSeconds", json!("20")),
        ("leaseDurationSeconds", json!(4_000_000_000_u64)),
        ("renewTime", json!("soon")),
        ("renewTime", json!("2026-11-30T07:00:00Z")),
        ("renewTime", json!("2026-11-30T07:00:00.5Z")),
        ("leaseTransitions", json!(-1)),
    ] {
        let stored = store(json!({}), json!({"holderIdentity": "ghost", field: value})).await;
        assert!(stored.is_err(), "{field}: {value}");
    }
    let long_ago = "2026-01-01T00:00:00.000000+05:00";
    // Without any time it counts from its creation; with a duration of 68 years, from ours.
    store(json!({}), json!({"holderIdentity": "ghost", "leaseDurationSeconds": 86_400})).await.unwrap();
    assert_eq!(take(0).await.map(|held| (held.by, held.oddity)), Some(("ghost".into(), None)));
    store(json!({}), json!({"holderIdentity": "ghost", "leaseDurationSeconds": i32::MAX, "renewTime": long_ago})).await.unwrap();
    assert_eq!(take(0).await, None);
    store(json!({}), json!({"holderIdentity": "ghost", "acquireTime": long_ago})).await.unwrap();
    assert_eq!(take(0).await, None);
    let future = json!({"holderIdentity": "ghost", "leaseDurationSeconds": 2, "renewTime": "2999-01-01T00:00:00.000000Z"});
    store(json!({}), future).await.unwrap();
    let held = take(0).await.unwrap();
    assert!(held.to_string().contains("the holder's clock is wrong"), "{held}");
    assert_eq!(take(10).await, None, "it stood still for its duration");
    // One that is being deleted is used until it is gone; what others wrote stays.
    let metadata = json!({"labels": {"team": "a"}, "finalizers": ["example.com/slow"]});
    store(metadata, json!({"holderIdentity": "", "leaseTransitions": 7})).await.unwrap();
    plane.run_kubectl(&["delete", "lease", "noderotation", "-n", keys::DEFAULT_NAMESPACE, "--wait=false"], "").await.unwrap();
    assert_eq!(take(0).await, None);
    let label = ["get", "lease", "noderotation", "-n", keys::DEFAULT_NAMESPACE, "-o", "jsonpath={.metadata.labels.team}"];
    assert_eq!(plane.run_kubectl(&label, "").await.unwrap(), "a");
    assert_eq!(lease(plane).await["leaseTransitions"], 8);
    store(json!({"labels": {"team": "a"}}), json!({"holderIdentity": ""})).await.unwrap();
    assert_eq!(take(0).await, None, "it is gone, and made anew");
}

/// Everything that can be read; answers a claim, its UID and its Node.
async fn reads(session: &Session) -> (String, String, String) {
    let mut view = session.load().await.unwrap();
    assert_eq!(view.unreadable, []);
    assert_eq!(view.pools.keys().collect::<Vec<_>>(), ["web"]);
    assert_eq!(view.claims.len(), 2);
    let claim = view.claims.values().next().unwrap().clone();
    let node = claim.node().unwrap().to_owned();
    let needs = BTreeSet::from([
        Need::NodesOfPool("web".into()),
        Need::Node(node.clone()),
        Need::Node("no-such-node".into()),
        Need::PodsOn(node.clone()),
        Need::BudgetsIn("default".into()),
        Need::EventsAbout("noderotation-surge-x".into()),
    ]);
    session.read(&mut view, &needs).await;
    assert!(view.facts.failed.is_empty(), "{:?}", view.facts.failed);
    assert_eq!(view.facts.nodes_of_pool["web"].len(), 2);
    assert_eq!(view.facts.nodes["no-such-node"], None);
    assert!(view.facts.nodes[&node].as_ref().is_some_and(|node| node.is_ready()));
    assert_eq!(view.facts.pods_on[&node].len(), 5);
    (claim.metadata.name.clone(), claim.metadata.uid.clone(), node)
}

async fn writes(session: &Session, claim: &str, node: &str) {
    let (pool, now) = ("web".to_owned(), session.now());
    let claim = claim.to_owned();
    landed(session, Effect::Anchor { pool: pool.clone(), claim: claim.clone(), at: now, failed_at: None }).await;
    landed(session, Effect::BeginAttempt { claim: claim.clone(), from: &[State::None], at: now }).await;
    landed(session, Effect::Hold { node: node.into(), claim: claim.clone() }).await;
    let view = session.load().await.unwrap();
    assert_eq!(view.marked.keys().collect::<Vec<_>>(), [node]);
    landed(session, create(placeholder(&claim), &claim)).await;
    told_by_the_scheduler(session).await;
    let name = "noderotation-surge-x".to_owned();
    landed(session, Effect::DeletePlaceholder { namespace: keys::DEFAULT_NAMESPACE.into(), name, claim: claim.clone() }).await;
    landed(session, Effect::Restore { node: node.into(), owner: Owner::Claim(claim.clone()) }).await;
    landed(session, Effect::ClearClaim { claim: claim.clone() }).await;
    landed(session, Effect::Release { pool, claim, end: End::WithoutOutcome, at: now }).await;
}

async fn told_by_the_scheduler(session: &Session) {
    let mut view = session.load().await.unwrap();
    assert_eq!(view.placeholders.len(), 1);
    for _ in 0..50 {
        session.read(&mut view, &BTreeSet::from([Need::EventsAbout("noderotation-surge-x".into())])).await;
        if view.facts.events["noderotation-surge-x"].get("default-scheduler").is_some_and(|message| message.starts_with("0/")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{:?}", view.facts.events);
}

async fn events(plane: &ControlPlane, session: &Session, claim: &str, uid: &str) {
    let regarding = Regarding { kind: "NodeClaim", name: claim.into(), uid: uid.into() };
    let condition = Notice::new(Reason::ShortLead, regarding.clone(), "web", "x".repeat(3000));
    let transition = Notice::new(Reason::RotationExpired, Regarding { uid: String::new(), ..regarding }, "web", "gone".into());
    for _ in 0..2 {
        session.tell(&[condition.clone(), transition.clone()]).await;
    }
    let selector = format!("--field-selector=reportingComponent={}", keys::REPORTING_CONTROLLER);
    let text = plane.run_kubectl(&["get", "events", "-n", "default", &selector, "-o", "jsonpath={.items[*].reason}"], "").await.unwrap();
    assert_eq!(BTreeSet::from_iter(text.split(' ')), BTreeSet::from(["RotationExpired", "ShortLead"]));
    assert_eq!(text.split(' ').count(), 2);
}

/// A Pod that fits nowhere.
fn placeholder(claim: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "noderotation-surge-x", "namespace": keys::DEFAULT_NAMESPACE,
            "labels": {keys::SURGE_FOR: claim}, "annotations": {keys::SURGE_FOR: claim},
        },
        "spec": {
            "nodeSelector": {"no": "where"}, "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }, "resources": {"requests": {"cpu": "500m"}}}],
        },
    })
}

fn create(pod: serde_json::Value, claim: &str) -> Effect {
    // Security contexts are written and never read.
    let whole: PodSpec = serde_json::from_value(pod["spec"].clone()).unwrap();
    let mut pod: Pod = serde_json::from_value(pod).unwrap();
    let spec = pod.spec.as_mut().unwrap();
    spec.security_context = whole.security_context;
    for (container, whole) in spec.containers.iter_mut().zip(whole.containers) {
        container.security_context = whole.security_context;
    }
    Effect::CreatePlaceholder { pod: pod.into(), claim: claim.into() }
}

async fn rehearsed(session: &Session, effect: Effect) -> Answer {
    let (rehearsal, mut view) = (Rehearsal(effect), View::default());
    session.read(&mut view, &BTreeSet::from([Need::Rehearsal(rehearsal.clone())])).await;
    view.facts.rehearsals.remove(&rehearsal).unwrap()
}

/// Asks until the answer is a refusal with these words: admission learns of new quotas and policies a little later.
async fn refused(session: &Session, effect: Effect, status: u16, words: &str) {
    let mut answer = None;
    for _ in 0..100 {
        answer = Some(rehearsed(session, effect.clone()).await);
        if let Some(Answer::Refused { status: told, words: said }) = &answer
            && (*told, said.contains(words)) == (status, true)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("neither {status} nor {words:?}: {answer:?}");
}

/// Each write of a start is tried, and nothing is stored; then each is refused by what may refuse it.
async fn rehearsals(plane: &ControlPlane, session: &Session, claim: &str, uid: &str, node: &str) {
    let version = async |kind: &str, name: &str| {
        plane.run_kubectl(&["get", kind, name, "-o", "jsonpath={.metadata.resourceVersion}"], "").await.unwrap()
    };
    let before =
        (version("nodeclaim", claim).await, plane.run_kubectl(&["get", "node", node, "-o", "jsonpath={.metadata.annotations}"], "").await);
    let stamp = Effect::BeginAttempt { claim: claim.into(), from: &[State::None], at: session.now() };
    let delete = Effect::DeleteClaim { claim: claim.into(), uid: uid.into() };
    let hold = Effect::Hold { node: node.into(), claim: claim.into() };
    let pod = create(placeholder(claim), claim);
    for effect in [stamp.clone(), delete.clone(), hold, pod.clone()] {
        let answer = rehearsed(session, effect.clone()).await;
        // Of what comes of a patch or a delete nothing is read.
        let Answer::Agreed { after } = &answer else { panic!("{effect}: {answer:?}") };
        assert_eq!(after.is_some(), effect == pod, "{effect}: {answer:?}");
    }
    let after =
        (version("nodeclaim", claim).await, plane.run_kubectl(&["get", "node", node, "-o", "jsonpath={.metadata.annotations}"], "").await);
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    let pods = plane.run_kubectl(&["get", "pods", "-n", keys::DEFAULT_NAMESPACE, "-o", "name"], "").await.unwrap();
    assert_eq!(pods, "");

    let mut careless = placeholder(claim);
    careless["spec"]["containers"][0]["securityContext"] = json!(null);
    refused(session, create(careless, claim), 403, "violates PodSecurity").await;
    let namespaced = |kind: &str, spec: serde_json::Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "tight", "namespace": keys::DEFAULT_NAMESPACE}, "spec": spec});
    plane.apply_objects(&[namespaced("LimitRange", json!({"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}))]).await.unwrap();
    refused(session, pod.clone(), 422, "must be less than or equal to cpu limit of 100m").await;
    plane.run_kubectl(&["delete", "limitrange", "tight", "-n", keys::DEFAULT_NAMESPACE], "").await.unwrap();
    plane.apply_objects(&[namespaced("ResourceQuota", json!({"hard": {"pods": "0"}}))]).await.unwrap();
    refused(session, pod, 403, "exceeded quota: tight").await;

    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "keep-claims"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["karpenter.sh"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["nodeclaims"],
            }]},
            "validations": [{"expression": "false", "message": "NodeClaims stay"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "keep-claims"},
        "spec": {"policyName": "keep-claims", "validationActions": ["Deny"]},
    });
    plane.apply_objects(&[policy, binding]).await.unwrap();
    refused(session, delete, 422, "NodeClaims stay").await;
    assert!(matches!(rehearsed(session, stamp).await, Answer::Agreed { .. }));
}
