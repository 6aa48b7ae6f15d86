//! Cases from the field that only the real API server and Karpenter can show: C04, C06, C09, C12, C17, C23. One control
//! plane with a pool for each.

use std::time::Duration;

use control_plane::{Options, Workload};
use k8s_openapi::api::core::v1::NodeAffinity;
use noderotation::{
    api::{
        karpenter::NodePool,
        quantity::{Quantity, Resources},
    },
    surge::{PlaceholderSettings, placeholder},
};
use serde_json::{Value, json};

use crate::{
    chronicle::Chronicle,
    hard_places::{fill, once},
    passes::{NAMESPACE, Passes, annotation},
    policy::with,
    pools::{LIMIT, fill_and_stall, pool},
};

#[tokio::test(flavor = "multi_thread")]
async fn c04_c06_c09_c12_c17_c23_on_the_real_api_server_and_karpenter() {
    let passes = Passes::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await.with(&["--log-format", "json"]);
    futures::join!(
        async { drop(fill_and_stall(&passes.plane, &pool("tight"), 1, 1).await) },
        fill(&passes, "hosts"),
        fill(&passes, "closed"),
        zonal(&passes),
    );
    c09_the_api_server_takes_limits_and_insists_on_them(&passes).await;
    let pinned = c06_pinned_pods(&passes).await;
    c06_long_names_are_labels(&passes).await;
    passes.plane.install(&pool("closed").limits(json!({"cpu": 1000, "nodes": 0}))).await.unwrap();
    // What remains of limits follows from what Karpenter has counted.
    let counted = async || {
        let pools = futures::future::join_all(["tight", "hosts", "closed", "zonal"].map(|name| passes.pool(name))).await;
        Ok(pools.iter().all(|pool| pool["status"]["resources"]["nodes"] == "1"))
    };
    passes.plane.wait_for("Karpenter has counted the nodes", LIMIT, counted).await.unwrap();
    let chronicle = Chronicle::begin(&passes.plane);
    let tight = with(with(once("tight"), "surge.readyTimeout", json!("25s")), "surge.retryBackoff", json!("1h"));
    passes.plane.apply_objects(&[tight, once("hosts"), once("closed"), once("zonal")]).await.unwrap();

    let pass = passes.idle(1).await.remove(0);
    c23_a_pool_closed_by_nodes_0(&passes, &pass.summary("closed")).await;
    c06_the_placeholder(&passes, &pinned).await;
    let success = json!({"success": 1});
    passes.until_totals(&[("hosts", success.clone()), ("zonal", success), ("tight", json!({"failure": 1}))]).await;
    c04_the_attempt_tells_karpenters_words_and_leaves_nothing(&passes).await;
    let history = chronicle.history().await;
    c12_the_replacement_is_where_the_volumes_are(&passes, &history).await;
    c17_six_digits(&passes).await;
    passes.assert_rights_sufficed();
}

/// The candidate is in zone c; then the pool may be in a and b, too.
async fn zonal(passes: &Passes) {
    let zones = |zones: Value| pool("zonal").requirement(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}));
    let workload = Workload::new("zonal", "zonal").replicas(1).cpu("5");
    passes.plane.install(&zones(json!(["test-zone-c"]))).await.unwrap();
    passes.plane.deploy(&workload).await.unwrap();
    passes.plane.wait_for_pods(&workload).await.unwrap();
    passes.plane.wait_for_claims("zonal", 1, "Initialized").await.unwrap();
    passes.plane.install(&zones(json!(["test-zone-a", "test-zone-b", "test-zone-c"]))).await.unwrap();
}

async fn c12_the_replacement_is_where_the_volumes_are(passes: &Passes, history: &crate::chronicle::History) {
    let zone = "topology.kubernetes.io/zone";
    // By its Node: where another pool's Pods have begun a batch of Karpenter's that ends between the claim's delete and the
    // placeholder's, one more node comes, in any zone.
    let surge = history.surge_node("zonal", &history.rotations("zonal").pop().unwrap());
    let claims = passes.claims("zonal").await;
    let replacement = claims.iter().find(|claim| claim["status"]["nodeName"] == surge).unwrap();
    assert_eq!(replacement["metadata"]["labels"][zone], "test-zone-c");
    // Without the term Karpenter may choose; with the pool cut to other zones it is left out, and that is said.
    let cut = pool("zonal").requirement(json!({"key": zone, "operator": "In", "values": ["test-zone-a", "test-zone-b"]}));
    passes.plane.install(&cut.spec("disruption", json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}))).await.unwrap();
    passes.plane.apply_objects(&[with(once("zonal"), "surge.cooldownAfter", json!("0s"))]).await.unwrap();
    passes.until("the dropped key is told", LIMIT, async |_| !passes.told("RequirementDropped", zone).await.is_empty()).await;
    let told = passes.told("RequirementDropped", zone).await;
    assert!(told[0].contains("test-zone-c") && told[0].contains("In [test-zone-a, test-zone-b]"), "{told:?}");
}

/// The Node's hostname label differs from its name; one Pod is pinned by the label, one by the name, and one is free.
async fn c06_pinned_pods(passes: &Passes) -> String {
    let claim = passes.only_claim("hosts").await;
    let node = passes.claim(&claim).await.unwrap()["status"]["nodeName"].as_str().unwrap().to_owned();
    passes.plane.run_kubectl(&["label", "node", &node, "kubernetes.io/hostname=ip-10-0-0-7", "--overwrite"], "").await.unwrap();
    let by_name = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        pod["spec"]["containers"] = json!([{"name": "main", "image": "registry.invalid/app", "resources": {"requests": {"cpu": "1"}}}]);
        pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        pod
    };
    let pods = [
        pod("pinned-by-label", json!({"nodeSelector": {"kubernetes.io/hostname": "ip-10-0-0-7"}})),
        pod("pinned-by-name", json!({"affinity": by_name})),
    ];
    passes.plane.apply_objects(&pods).await.unwrap();
    let bound = async || {
        let arguments = ["get", "pods", "-n", "default", "--field-selector", &format!("spec.nodeName={node}"), "-o", "name"];
        let names = passes.plane.run_kubectl(&arguments, "").await?;
        Ok(["pinned-by-label", "pinned-by-name"].iter().all(|pod| names.contains(pod)))
    };
    passes.plane.wait_for("the pinned Pods are bound", LIMIT, bound).await.unwrap();
    claim
}

/// Twins whose first 63 characters are equal, and one whose 63rd is a hyphen: each label is one that the API server takes.
async fn c06_long_names_are_labels(passes: &Passes) {
    let names = [format!("p-{}", "a".repeat(66)), format!("p-{}b", "a".repeat(65)), format!("p{}-{}", "a".repeat(61), "b".repeat(9))];
    let mut labels = std::collections::BTreeSet::new();
    for claim in &names {
        let pod = c09_pod(claim, &[("cpu", "1")]);
        labels.insert(pod["metadata"]["labels"]["noderotation.io/surge-for"].as_str().unwrap().to_owned());
        passes.plane.run_kubectl(&["create", "--dry-run=server", "-f", "-"], &pod.to_string()).await.unwrap();
    }
    assert_eq!(labels.len(), names.len(), "{labels:?}");
}

async fn c06_the_placeholder(passes: &Passes, claim: &str) {
    assert_eq!(passes.anchor("hosts").await.as_deref(), Some(claim));
    let text = passes.plane.run_kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "json"], "").await.unwrap();
    let pods: Value = serde_json::from_str(&text).unwrap();
    let ours = pods["items"].as_array().unwrap().iter().find(|pod| annotation(pod, "surge-for").as_deref() == Some(claim)).unwrap();
    assert_eq!(ours["spec"]["containers"][0]["resources"]["requests"]["cpu"], "5", "without the pinned Pods");
    let affinity = &ours["spec"]["affinity"]["nodeAffinity"];
    let elsewhere = json!([{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-10-0-0-7"]}]);
    let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array().unwrap();
    assert!(preferred.iter().any(|term| term["preference"]["matchExpressions"] == elsewhere), "{affinity}");
    assert!(!affinity["requiredDuringSchedulingIgnoredDuringExecution"].to_string().contains("hostname"), "{affinity}");
}

async fn c04_the_attempt_tells_karpenters_words_and_leaves_nothing(passes: &Passes) {
    let claim = passes.only_claim("tight").await;
    assert_eq!(passes.told("HeadroomDoubtful", "").await.len(), 1);
    let told = passes.told("SurgeUnschedulable", &claim).await;
    assert!(told.iter().any(|note| note.contains("karpenter: ") && note.contains("exceed")), "{told:?}");
    let marks = passes.marks(&claim).await;
    assert!(marks["unschedulable"] != true && !marks.to_string().contains("noderotation.io"), "{marks}");
    assert_eq!(annotation(&passes.claim(&claim).await.unwrap(), "retry-count").as_deref(), Some("1"));
}

/// A placeholder as a pass would create it.
fn c09_pod(claim: &str, request: &[(&str, &str)]) -> Value {
    let request = request.iter().map(|(resource, text)| ((*resource).to_owned(), Quantity::parse(text).unwrap()));
    let settings = PlaceholderSettings { namespace: NAMESPACE.into(), image: "registry.invalid/pause".into(), pull_secrets: Vec::new() };
    let pool: NodePool = serde_json::from_value(json!({"metadata": {"name": "gpu"}})).unwrap();
    let pod = placeholder(&settings, &pool, claim, &Resources(request.collect()), NodeAffinity::default());
    let mut pod = serde_json::to_value(pod).unwrap();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod
}

/// Hugepages and extended resources: refused without limits, taken with those of the program.
async fn c09_the_api_server_takes_limits_and_insists_on_them(passes: &Passes) {
    let mut pod = c09_pod("gpu-1", &[("cpu", "1500m"), ("memory", "2933Mi"), ("example.com/gpu", "2"), ("hugepages-2Mi", "64Mi")]);
    let arguments = ["create", "--dry-run=server", "-f", "-"];
    passes.plane.run_kubectl(&arguments, &pod.to_string()).await.unwrap();
    pod["spec"]["containers"][0]["resources"]["limits"] = Value::Null;
    let refused = passes.plane.run_kubectl(&arguments, &pod.to_string()).await.unwrap_err().to_string();
    assert!(refused.contains("Limit must be set for non overcommitable resources"), "{refused}");
}

async fn c23_a_pool_closed_by_nodes_0(passes: &Passes, summary: &Value) {
    let limits = &passes.pool("closed").await["spec"]["limits"];
    assert!(limits["nodes"].is_number() && limits["cpu"].is_number(), "the API server stores numbers: {limits}");
    assert_eq!(summary["action"], "gated", "{summary}");
    let told = passes.told("InsufficientHeadroom", "nodes: 1 requested").await;
    assert!(matches!(told.as_slice(), [note] if note.contains("-1 remaining of limit 0")), "{told:?}");
}

/// What the Lease holds has six digits; the API server refuses any other form.
async fn c17_six_digits(passes: &Passes) {
    let lease = passes.plane.run_kubectl(&["get", "lease", "noderotation", "-n", NAMESPACE, "-o", "json"], "").await.unwrap();
    let lease: Value = serde_json::from_str(&lease).unwrap();
    let renewed = lease["spec"]["renewTime"].as_str().unwrap();
    assert_eq!(renewed.len(), "2026-11-30T07:00:00.000000Z".len(), "{renewed}");
    let with_time = |time: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "digits", "namespace": "default"},
            "spec": {"holderIdentity": "x", "renewTime": time}})
        .to_string()
    };
    let arguments = ["create", "--validate=false", "--dry-run=server", "-f", "-"];
    for refused in ["2026-11-30T07:00:00Z", "2026-11-30T07:00:00.5Z", "2026-11-30T07:00:00.123456789Z"] {
        let answer = passes.plane.run_kubectl(&arguments, &with_time(refused)).await;
        assert!(answer.is_err_and(|error| error.to_string().contains("parsing time")), "{refused}");
    }
    passes.plane.run_kubectl(&arguments, &with_time("2026-11-30T07:00:00.123456+00:00")).await.unwrap();
}
