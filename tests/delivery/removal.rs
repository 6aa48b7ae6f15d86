//! What is removed leaves nothing behind, whatever it was doing.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use control_plane::{Options, Pool, Workload};
use serde_json::Value;

use crate::{
    blocks, list,
    passes::{NAMESPACE, Passes, annotation},
    policy::policy,
    root,
};

/// The commands of `docs/uninstall.md`, all of them.
struct Documented {
    policies: String,
    /// What is still marked, and what is still in flight.
    left: [String; 2],
    rest: String,
    clean_up: String,
}

fn documented() -> Documented {
    let all: [String; 4] = blocks(&root().join("docs/uninstall.md"), "sh").try_into().expect("four blocks: a new one has to be run here");
    let [policies, left, rest, clean_up] = all;
    let left: Vec<String> = left.lines().map(str::to_owned).collect();
    Documented { policies, left: left.try_into().expect("two lines"), rest, clean_up }
}

/// Runs it as a person would, in the project's folder.
fn shell(passes: &Passes, script: &str) -> String {
    let kubectl = passes.plane.kubectl();
    let binary = std::path::Path::new(kubectl.get_program()).parent().unwrap().to_owned();
    let path = std::env::join_paths([binary, "/usr/bin".into(), "/bin".into()]).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script])
        .current_dir(root())
        .envs(kubectl.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = bash.env("PATH", path).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Two pools in the middle of rotations: `slow` drains and can't end, `web` waits for a node that doesn't become Ready.
async fn in_the_middle(passes: &Passes) {
    let slow = Pool::new("slow").label("rotate", "slow").expire_after("720h");
    let web = Pool::new("web").label("rotate", "web").expire_after("720h");
    passes.plane.part_fill(&web, Workload::new("web", "web"), 1).await.unwrap();
    passes.plane.part_fill(&slow, Workload::new("slow", "slow").max_unavailable(0), 1).await.unwrap();
    passes
        .plane
        .run_kubectl(&["annotate", "nodes", "--selector=karpenter.sh/nodepool=web", "karpenter.sh/do-not-disrupt=30m"], "")
        .await
        .unwrap();
    passes.plane.apply_objects(&[policy("slow")]).await.unwrap();
    let draining = async |_: &_| passes.pool_annotation("slow", "active-rotation-state").await.is_some();
    passes.until("slow drains", Duration::from_secs(120), draining).await;
    passes.plane.hold_new_nodes().unwrap();
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();
    waits(passes).await;
}

async fn waits(passes: &Passes) {
    let waiting = async |_: &_| {
        let pods = list(&passes.plane, &["pods", "--namespace", NAMESPACE]).await;
        pods.iter().any(|pod| pod["metadata"]["name"].as_str().unwrap().starts_with("noderotation-surge-"))
    };
    passes.until("web waits for its surge", Duration::from_secs(60), waiting).await;
}

/// Everything of ours that the API server still has, as `Kind name`, without what is on other objects.
async fn installed(passes: &Passes) -> Vec<String> {
    let kinds = "namespaces,clusterroles,clusterrolebindings,roles,rolebindings,priorityclasses,customresourcedefinitions,cronjobs,jobs,pods,leases,serviceaccounts";
    let objects = list(&passes.plane, &[kinds, "--all-namespaces"]).await;
    let names =
        objects.iter().map(|object| format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap()));
    names.filter(|name| name.contains("noderotation") || name.ends_with(NAMESPACE)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_in_the_middle_of_rotations_it_leaves_nothing_behind() {
    let passes = Passes::start(Options { pod_ready_delay: Duration::ZERO, ..Options::default() }).await;
    passes.plane.apply_kustomization(&root().join("kustomize/base")).await.unwrap();
    in_the_middle(&passes).await;
    let left = passes.leftovers().await;
    for key in [
        "cordoned",
        "noderotation.io/marked",
        "noderotation.io/do-not-disrupt-was",
        "noderotation.io/active-rotation",
        "noderotation.io/state",
    ] {
        assert!(left.iter().any(|item| item.ends_with(key)), "{key}: {left:#?}");
    }

    let Documented { policies, left: [marked, anchored], rest, clean_up } = documented();
    // At once.
    shell(&passes, &rest);
    assert_eq!(installed(&passes).await, Vec::<String>::new());
    shell(&passes, &clean_up);
    nothing_left(&passes).await;
    // The same again has nothing to do, and is no error.
    shell(&passes, &clean_up);

    // In order. `slow` can't end, so its policy isn't brought back.
    passes.plane.apply_kustomization(&root().join("kustomize/base")).await.unwrap();
    passes.plane.kubeconfig_for(NAMESPACE, "noderotation").await.unwrap();
    passes.plane.apply_objects(&[policy("web")]).await.unwrap();
    waits(&passes).await;
    shell(&passes, &policies);
    assert_ne!(shell(&passes, &marked), "");
    assert_ne!(shell(&passes, &anchored), "");
    let settled = async |_: &_| shell(&passes, &marked).is_empty() && shell(&passes, &anchored).is_empty();
    passes.until("nothing is in flight", Duration::from_secs(60), settled).await;
    shell(&passes, &rest);
    assert_eq!(installed(&passes).await, Vec::<String>::new());
    assert_eq!(passes.leftovers().await, Vec::<String>::new());
}

/// No key, no cordon, no Event of ours; and what the operator had there is there again.
async fn nothing_left(passes: &Passes) {
    assert_eq!(passes.leftovers().await, Vec::<String>::new());
    for pool in ["web", "slow"] {
        let pool = passes.pool(pool).await;
        assert_eq!((annotation(&pool, "totals"), annotation(&pool, "last-rotation-at")), (None, None));
    }
    assert_eq!(passes.events().await, Vec::new());
    let nodes = list(&passes.plane, &["nodes", "--selector=karpenter.sh/nodepool=web"]).await;
    let kept: Vec<&Value> =
        nodes.iter().map(|node| &node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"]).filter(|value| !value.is_null()).collect();
    assert_eq!(kept, ["30m"]);
}
