//! Every kustomization is accepted by a real API server without a warning; and each component, alone or with the others,
//! changes what it says and nothing else.

use std::{path::Path, process::Command};

use control_plane::{ControlPlane, Options};
use serde_json::json;

use crate::{blocks, passes::NAMESPACE, root};

const CONTAINER: &str = "/spec/jobTemplate/spec/template/spec/containers/0";

pub const COMPONENTS: [&str; 6] = ["image-mirror", "pull-secrets", "cadence", "cluster-label", "max-in-flight", "runbook-links"];

/// What the API server has, and how often, because of a component; it has it at no place without that component.
const CHANGES: [(&str, usize, &str); 11] = [
    ("image-mirror", 1, r#""image":"registry.example.com/mirror/noderotation:0.1.0""#),
    ("image-mirror", 1, r#""image":"registry.example.com/mirror/prometheus/pushgateway:"#),
    ("image-mirror", 1, r#"{"name":"NODEROTATION_PLACEHOLDER_IMAGE","value":"registry.example.com/mirror/pause:"#),
    ("pull-secrets", 2, r#""imagePullSecrets":[{"name":"mirror"}]"#),
    ("pull-secrets", 1, r#"{"name":"NODEROTATION_IMAGE_PULL_SECRET","value":"mirror"}"#),
    ("cadence", 1, r#""schedule":"*/2 * * * *""#),
    ("cadence", 1, r#"{"name":"NODEROTATION_CADENCE","value":"2m"}"#),
    ("cluster-label", 1, r#"{"name":"NODEROTATION_GROUPING","value":"cluster=blue"}"#),
    ("max-in-flight", 1, r#"{"name":"NODEROTATION_MAX_IN_FLIGHT","value":"2"}"#),
    ("runbook-links", 14, r#""runbook_url":"https://git.example.com/noderotation/docs/runbook/Noderotation"#),
    ("none", 0, "settings"),
];

/// A folder with a kustomization as `kustomize/components/README.md` shows it, with these components only; beside it
/// `noderotation`, the project.
pub fn composed(components: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let [kustomization, settings] = &blocks(&root().join("kustomize/components/README.md"), "yaml")[..] else { panic!("two blocks") };
    let is_left_out = |line: &str| line.split_once("components/").is_some_and(|(_, name)| !components.contains(&name));
    let kept: Vec<&str> = kustomization.lines().filter(|line| !is_left_out(line)).collect();
    std::fs::write(folder.path().join("kustomization.yaml"), kept.join("\n")).unwrap();
    std::fs::write(folder.path().join("settings.yaml"), settings).unwrap();
    std::os::unix::fs::symlink(root(), folder.path().join("noderotation")).unwrap();
    folder
}

/// What `kubectl` prints when it is asked to try this and not do it; both streams, of which the second has the warnings.
fn dry_run(plane: &ControlPlane, folder: &Path) -> (bool, String, String) {
    let mut kubectl = plane.kubectl();
    kubectl.args(["apply", "--server-side", "--dry-run=server", "--force-conflicts", "--kustomize"]).arg(folder);
    let output = kubectl.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

/// Installs the CRDs of a Prometheus operator, which the overlay `monitoring` needs.
pub async fn monitoring_crds(plane: &ControlPlane) {
    let made = Command::new(root().join("tests/tools/monitoring-crds")).status().unwrap();
    assert!(made.success());
    let crds = root().join("target/monitoring-crds").display().to_string();
    plane.run_kubectl(&["apply", "--server-side", "--filename", &crds], "").await.unwrap();
    plane.run_kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kustomization_is_accepted_and_each_component_changes_what_it_says() {
    let plane = ControlPlane::start(Options { karpenter: false, ..Options::default() }).await.unwrap();
    monitoring_crds(&plane).await;
    // A dry run makes no namespace for what follows.
    plane.apply_kustomization(&root().join("kustomize/without-cronjob")).await.unwrap();
    warned(&plane);

    let names = ["crds", "cronjob", "kustomize/base", "kustomize/without-cronjob"].map(|name| root().join(name));
    let overlays = std::fs::read_dir(root().join("kustomize/overlays")).unwrap().map(|entry| entry.unwrap().path());
    for folder in names.into_iter().chain(overlays) {
        accepted(&plane, &folder);
        plane.apply_kustomization(&folder).await.unwrap();
    }

    let alone = COMPONENTS.map(|component| vec![component]);
    for components in alone.into_iter().chain([COMPONENTS.to_vec(), Vec::new()]) {
        let folder = composed(&components);
        accepted(&plane, folder.path());
        plane.apply_kustomization(folder.path()).await.unwrap();
        changed(&plane, &components).await;
    }
}

/// As the API server judges it: accepted without a warning.
fn accepted(plane: &ControlPlane, folder: &Path) {
    let (accepted, done, told) = dry_run(plane, folder);
    assert!(accepted && told.is_empty() && done.contains("serverside-applied (server dry run)"), "{}: {done}{told}", folder.display());
}

/// That what is stored differs from the plain overlay as these components say, and in nothing else that any of them says.
async fn changed(plane: &ControlPlane, components: &[&str]) {
    let kinds = "cronjobs,deployments,serviceaccounts,configmaps,prometheusrules";
    let stored = plane.run_kubectl(&["get", kinds, "--namespace", NAMESPACE, "--output=json"], "").await.unwrap();
    let stored = serde_json::from_str::<serde_json::Value>(&stored).unwrap().to_string();
    for (component, count, part) in CHANGES {
        let expected = if components.contains(&component) { count } else { 0 };
        assert_eq!(stored.matches(part).count(), expected, "{part} with {components:?}\n{stored}");
    }
}

/// That a clean dry run says something: a Pod template that `restricted` refuses is warned of.
fn warned(plane: &ControlPlane) {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root(), folder.path().join("noderotation")).unwrap();
    let patch = json!([{"op": "remove", "path": format!("{CONTAINER}/securityContext/capabilities")}]);
    let kustomization =
        json!({"resources": ["noderotation/kustomize/base"], "patches": [{"target": {"kind": "CronJob"}, "patch": patch.to_string()}]});
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let (_, _, told) = dry_run(plane, folder.path());
    assert!(told.contains("would violate PodSecurity \"restricted"), "{told}");
}
