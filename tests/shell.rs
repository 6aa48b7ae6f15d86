//! The shell on a real API server, under the rights that are shipped: what no fake can prove.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where something unexpected happens")]

use std::{collections::BTreeSet, path::Path, time::Duration};

use control_plane::{ControlPlane, Options, Pool};
use noderotation::{
    api::{events::Reason, keys},
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
    view::Need,
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
    let mut session = open(&kubeconfig).await.unwrap();
    assert_eq!(session.take_lease(Duration::ZERO).await, Ok(None));
    let (claim, uid, node) = reads(&session).await;
    writes(&session, &claim, &node).await;
    events(&plane, &session, &claim, &uid).await;
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
    tokio::time::sleep(Duration::from_secs(6)).await;
    let after = lease(plane).await;
    assert!(after["renewTime"].as_str() > before["renewTime"].as_str(), "renewed in the background");
    assert_eq!(after["acquireTime"], before["acquireTime"]);
    let anchor = Effect::Anchor { pool: "web".into(), claim: "x".into(), failed_at: None };
    assert!(matches!(second.apply(&anchor).await, Err(Failure::LeaseLost(_))));
    first.close().await;
    assert_eq!(second.take_lease(Duration::from_secs(3)).await, Ok(None));
    second.close().await;
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
    (claim.metadata.name, claim.metadata.uid, node)
}

async fn writes(session: &Session, claim: &str, node: &str) {
    let (pool, now) = ("web".to_owned(), session.now());
    let claim = claim.to_owned();
    landed(session, Effect::Anchor { pool: pool.clone(), claim: claim.clone(), failed_at: None }).await;
    landed(session, Effect::BeginAttempt { claim: claim.clone(), from: &[State::None], at: now }).await;
    landed(session, Effect::Freeze { node: node.into(), claim: claim.clone() }).await;
    landed(session, Effect::Cordon { node: node.into(), claim: claim.clone() }).await;
    let view = session.load().await.unwrap();
    assert_eq!(view.marked.keys().collect::<Vec<_>>(), [node]);
    let pod = json!({
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
            }}],
        },
    });
    let create = Effect::CreatePlaceholder { pod: Box::new(serde_json::from_value(pod).unwrap()), claim: claim.clone() };
    landed(session, create).await;
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
        if view.facts.events["noderotation-surge-x"].iter().any(|message| message.starts_with("default-scheduler: 0/")) {
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
