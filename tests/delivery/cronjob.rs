//! What is installed is applied to a real API server. The CronJob controller makes a Job of it, and that a Pod, which
//! admission has to accept; the program is run with exactly that Pod's arguments and environment until a node is rotated.

use std::{path::PathBuf, time::Duration};

use control_plane::{ControlPlane, Options, Pool, Pushgateway};
use serde_json::{Value, json};

use crate::{
    kustomizations::{COMPONENTS, composed, monitoring_crds},
    list,
    passes::{NAMESPACE, Pass, Passes},
    policy::policy,
    root,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shipped_is_accepted_and_its_pods_rotate_nodes() {
    let options = Options { pod_ready_delay: Duration::ZERO, ..Options::default() };
    let (passes, gateway) = tokio::join!(Passes::start(options), Pushgateway::start());
    let gateway = gateway.unwrap();
    monitoring_crds(&passes.plane).await;
    let all = composed(&COMPONENTS);

    let pool = Pool::new("web").label("rotate", "web").expire_after("720h").termination_grace_period("10m");
    passes.plane.part_filled_fleet(&pool, 1).await.unwrap();
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();
    let overlay = |name: &str| root().join("kustomize/overlays").join(name);
    let folders: [PathBuf; 5] =
        [root().join("kustomize/base"), overlay("eks-auto-mode"), overlay("pushgateway"), overlay("monitoring"), all.path().into()];
    // A CronJob starts on the minute: while one is awaited, the Pod of the one before is played.
    let mut pod: Option<Value> = None;
    for folder in &folders {
        println!("{}", folder.display());
        let next = async {
            let seen = list(&passes.plane, &["pods", "--namespace", NAMESPACE]).await;
            passes.plane.apply_kustomization(folder).await.unwrap();
            started(&passes.plane, &seen).await
        };
        let (next, ()) = tokio::join!(next, played(&passes, &gateway, pod.as_ref()));
        as_designed(&passes.plane, &next).await;
        pod = Some(next);
    }
    played(&passes, &gateway, pod.as_ref()).await;
    let metrics = gateway.metrics().await.unwrap();
    assert!(metrics.lines().any(|line| line.starts_with("noderotation_candidates{cluster=\"blue\"")), "{metrics}");
}

/// The next Pod that the CronJob comes to.
async fn started(plane: &ControlPlane, seen: &[Value]) -> Value {
    let uids: Vec<&Value> = seen.iter().map(|pod| &pod["metadata"]["uid"]).collect();
    let mut found = None;
    let what = "a Pod of the CronJob";
    // With the schedule of the components, two minutes.
    let awaited = plane
        .wait_for(what, Duration::from_secs(200), async || {
            let pods = list(plane, &["pods", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=noderotation"]).await;
            found = pods.into_iter().find(|pod| {
                let is_placeholder = pod["metadata"]["name"].as_str().unwrap().starts_with("noderotation-surge-");
                !is_placeholder && !uids.contains(&&pod["metadata"]["uid"])
            });
            Ok(found.is_some())
        })
        .await;
    if let Err(error) = awaited {
        panic!("{error}\n{}\n{}", plane.describe_state().await, plane.run_kubectl(&["describe", "cronjobs,jobs", "-A"], "").await.unwrap());
    }
    found.unwrap()
}

/// The fields on which the program relies, and those that confine it, from the API.
async fn as_designed(plane: &ControlPlane, pod: &Value) {
    let cronjob = list(plane, &["cronjobs", "--namespace", NAMESPACE]).await.remove(0);
    let spec = &cronjob["spec"];
    let fields =
        ["concurrencyPolicy", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"].map(|field| &spec[field]);
    assert_eq!(fields, [&json!("Forbid"), &json!(50), &json!(1), &json!(3)]);

    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "Job");
    let jobs = list(plane, &["jobs", "--namespace", NAMESPACE]).await;
    let job = jobs.iter().find(|job| job["metadata"]["uid"] == owner["uid"]).expect("the Pod's Job");
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], cronjob["metadata"]["uid"]);
    assert_eq!((&job["spec"]["activeDeadlineSeconds"], &job["spec"]["backoffLimit"]), (&json!(180), &json!(0)));

    let spec = &pod["spec"];
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["serviceAccountName"], "noderotation");
    assert_eq!((&spec["priorityClassName"], &spec["priority"]), (&json!("noderotation-pass"), &json!(1_000_000)));
    let profile = json!({"runAsGroup": 65532, "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(spec["securityContext"], profile);
    let container = &spec["containers"][0];
    let confined = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true});
    assert_eq!(container["securityContext"], confined);
    assert_eq!(container["resources"], json!({"limits": {"memory": "256Mi"}, "requests": {"cpu": "20m", "memory": "32Mi"}}));
    let preferred = &spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(preferred["preference"]["matchExpressions"], json!([{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]));
    let namespace = plane.run_kubectl(&["get", "namespace", NAMESPACE, "--output=jsonpath={.metadata.labels}"], "").await.unwrap();
    assert!(namespace.contains("\"pod-security.kubernetes.io/enforce\":\"restricted\""), "{namespace}");
}

/// Passes with what the Pod has: its arguments, its environment, a token of its ServiceAccount; until one more node is
/// rotated. The name of the Pushgateway leads to a real one, by a proxy: it answers whatever name it is called.
async fn played(passes: &Passes, gateway: &Pushgateway, pod: Option<&Value>) {
    let Some(pod) = pod else { return };
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
    let kubeconfig = passes.plane.kubeconfig_for(NAMESPACE, account).await.unwrap();
    let container = &pod["spec"]["containers"][0];
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect();
    let before = passes.totals("web").await["success"].as_u64().unwrap_or(0);
    let start = std::time::Instant::now();
    while passes.totals("web").await["success"].as_u64().unwrap_or(0) == before {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_noderotation"));
        command.args(&arguments).env_clear().env("KUBECONFIG", &kubeconfig).env("http_proxy", gateway.url());
        for variable in container["env"].as_array().unwrap() {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => &pod["metadata"]["namespace"],
                _ => &variable["value"],
            };
            command.env(variable["name"].as_str().unwrap(), value.as_str().unwrap());
        }
        let Pass { code, log, .. } = passes.finish(command).await;
        assert_eq!(code, Some(0), "{log}");
        assert!(log.starts_with('{') && !log.contains("push"), "JSON lines, and no failed push: {log}");
        assert!(start.elapsed() < Duration::from_secs(150), "no node is rotated: {log}\n{}", passes.plane.describe_state().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_may_look_or_act_by_the_group_they_are_in() {
    let plane = ControlPlane::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await.unwrap();
    plane.apply_kustomization(&root().join("kustomize/overlays/people")).await.unwrap();
    assert_eq!(list(&plane, &["cronjobs", "--all-namespaces"]).await, Vec::<Value>::new());
    let pool = Pool::new("web").label("rotate", "web").expire_after("720h").termination_grace_period("10m");
    plane.part_filled_fleet(&pool, 1).await.unwrap();
    plane.apply_objects(&[policy("web")]).await.unwrap();

    let run = async |group: &str, arguments: &[&str]| {
        let kubeconfig = impersonating(&plane, group);
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_noderotation"));
        command.arg("run").args(arguments).env_clear().env("KUBECONFIG", kubeconfig);
        let output = command.output().await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, told) = run("noderotation:viewers", &["--dry-run"]).await;
    assert!(code == Some(0) && told.contains("web"), "{code:?} {told}");
    let (code, told) = run("noderotation:viewers", &[]).await;
    assert!(code != Some(0) && told.contains("forbidden"), "{code:?} {told}");
    let (code, told) = run("somebody", &["--dry-run"]).await;
    assert_eq!(code, Some(3), "{told}");

    let start = std::time::Instant::now();
    loop {
        let (code, told) = run("noderotation:operators", &["--cadence=1s"]).await;
        assert_eq!(code, Some(0), "{told}");
        let pool = serde_json::to_value(plane.node_pools().get("web").await.unwrap()).unwrap();
        if pool["metadata"]["annotations"]["noderotation.io/totals"].as_str().is_some_and(|totals| totals.contains("\"success\":1")) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(150), "no node is rotated: {told}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A kubeconfig of somebody in this group, and in no other.
fn impersonating(plane: &ControlPlane, group: &str) -> PathBuf {
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(plane.kubeconfig()).unwrap()).unwrap();
    config["users"][0]["user"]["as"] = "somebody@example.com".into();
    config["users"][0]["user"]["as-groups"] = json!([group]);
    let path = plane.directory().join(format!("{}.kubeconfig", group.replace(':', "-")));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}
