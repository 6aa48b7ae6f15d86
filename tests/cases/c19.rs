//! C19: grouping labels that would eat ours, and values that a path can't carry; shown on a real Pushgateway.

use crate::program::{Kubeconfig, ended};

#[tokio::test]
async fn names_that_our_series_use_are_refused_before_anything_else() {
    let kubeconfig = Kubeconfig::plain(1);
    for labels in [
        &["nodepool=blue"][..],
        &["outcome=x"],
        &["phase=x"],
        &["le=1"],
        &["stage=x"],
        &["job=mine"],
        &["version=1"],
        &["cluster=a", "cluster=b"],
    ] {
        let mut arguments = vec!["--pushgateway", "http://127.0.0.1:1"];
        labels.iter().for_each(|label| arguments.extend(["--grouping", label]));
        let ended = ended(kubeconfig.run(&arguments)).await;
        assert_eq!(ended.code, Some(2), "{labels:?}: {}", ended.log);
        assert!(ended.log.contains("job, le, nodepool, outcome, phase, stage, version"), "{labels:?}: {}", ended.log);
    }
    for label in ["9bad=x", "a-b=x", "__name__=x", "=x", "cluster"] {
        let ended = ended(kubeconfig.run(&["--pushgateway", "http://127.0.0.1:1", "--grouping", label])).await;
        assert_eq!(ended.code, Some(2), "{label}: {}", ended.log);
    }
}

/// Needs the Debian package, so it runs with the tests on a control plane.
#[cfg(feature = "faults")]
mod real {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    use control_plane::Pushgateway;
    use serde_json::json;

    use crate::{
        program::Kubeconfig,
        server::{Reply, Server},
    };

    /// A governed pool without claims.
    async fn cluster() -> Server {
        Server::start(|request| {
            let item = if request.path.contains("/nodepools") {
                json!({
                    "metadata": {"name": "web", "uid": "u1", "labels": {"a": "b"}},
                    "spec": {"template": {"spec": {"expireAfter": "720h"}}},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                })
            } else if request.path.contains("/rotationpolicies") {
                json!({
                    "metadata": {"name": "p", "uid": "u2", "generation": 1},
                    "spec": {
                        "nodePoolSelector": {},
                        "maintenanceWindows": [{"timezone": "UTC", "days": ["Mon"], "start": "02:00", "end": "06:00"}],
                    },
                })
            } else {
                return None;
            };
            (request.method == "GET").then(|| Reply::Json(200, json!({"kind": "List", "metadata": {}, "items": [item]})))
        })
        .await
    }

    #[tokio::test]
    async fn a_real_pushgateway_shows_each_value_on_every_series_and_the_pool_intact() {
        let (server, gateway) = (cluster().await, Pushgateway::start().await.unwrap());
        let kubeconfig = Kubeconfig::plain(server.port);
        for given in ["eu/prod", "a%2Fb", "", ".."] {
            let label = format!("where={given}");
            let url = gateway.url();
            let arguments = ["--pushgateway", &url, "--grouping", &label, "--grouping", "tier=gold", "--metrics-file", "-"];
            let mut command = kubeconfig.run(&arguments);
            let output = command.output().await.unwrap();
            let log = String::from_utf8_lossy(&output.stderr);
            assert!(!log.contains("not pushed"), "{log}");
            let scraped = gateway.metrics().await.unwrap();
            let ours: Vec<&str> = scraped.lines().filter(|line| line.starts_with("noderotation_")).collect();
            let label = format!("where=\"{given}\"");
            let group: Vec<&&str> = ours.iter().filter(|line| line.contains(&label)).collect();
            assert!(group.len() > 20, "{given:?}: {scraped}");
            assert!(group.iter().all(|line| line.contains("job=\"noderotation\"") && line.contains("tier=\"gold\"")), "{group:?}");
            assert!(group.iter().any(|line| line.contains("nodepool=\"web\"")), "{group:?}");
            let text = String::from_utf8_lossy(&output.stdout);
            promtool_agrees(&text);
            let samples: Vec<&str> = text.lines().filter(|line| line.starts_with("noderotation_")).collect();
            assert!(samples.len() > 20, "{text}");
            for sample in samples {
                let values = sample.rsplit_once('}').map_or(sample, |(_, values)| values).split_whitespace();
                assert!(values.filter(|word| word.parse::<f64>().is_ok()).count() == 1, "a timestamp: {sample}");
            }
        }
    }

    /// `promtool check metrics` reads the same text that was pushed, and has nothing to say about it.
    fn promtool_agrees(text: &str) {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool is missing: `make tools` installs it");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
}
