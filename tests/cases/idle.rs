//! What a pass asks that has nothing to do: 1,440 times a day, on someone's control plane.

use serde_json::json;

use crate::{
    program::{Kubeconfig, ended},
    server::{Reply, Server},
};

/// A NodePool with two pages of young claims.
async fn cluster() -> Server {
    Server::start(|request| {
        let claim = |name: &str| {
            json!({
                "metadata": {
                    "name": name, "uid": name, "creationTimestamp": "2026-11-30T00:00:00Z", "labels": {"karpenter.sh/nodepool": "web"},
                },
                "spec": {"expireAfter": "720h", "terminationGracePeriod": "1h"},
                "status": {"nodeName": name, "conditions": [{"type": "Ready", "status": "True"}]},
            })
        };
        let page = |next: &str, items: serde_json::Value| Some(Reply::Json(200, json!({"metadata": {"continue": next}, "items": items})));
        if request.path.contains("/nodeclaims") {
            return if request.path.contains("continue=") { page("", json!([claim("b")])) } else { page("more", json!([claim("a")])) };
        }
        if request.path.contains("/nodepools") {
            let template = json!({"spec": {"expireAfter": "720h", "terminationGracePeriod": "1h"}});
            return page("", json!([{"metadata": {"name": "web", "uid": "web"}, "spec": {"template": template}}]));
        }
        None
    })
    .await
}

#[tokio::test]
async fn an_idle_pass_asks_seven_requests_and_the_further_pages_and_lists_no_node_or_pod_but_its_own() {
    let server = cluster().await;
    let ended = ended(Kubeconfig::plain(server.port).run(&[])).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let asked = server.requests().into_iter().map(|request| {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let selector = query.split('&').find(|part| part.starts_with("labelSelector") || part.starts_with("continue"));
        format!("{} {path} {}", request.method, selector.unwrap_or_default()).trim_end().to_owned()
    });
    let asked: Vec<String> = asked.collect();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/node-rotation-system/leases";
    // It is looked at first, and written only after everything has been read.
    assert_eq!(asked[0], format!("GET {lease}/noderotation"));
    assert_eq!(asked[asked.len() - 2..], [format!("POST {lease}"), format!("PATCH {lease}/noderotation")]);
    let mut lists = asked[1..asked.len() - 2].to_vec();
    lists.sort();
    let expected = [
        "GET /api/v1/namespaces/node-rotation-system/pods labelSelector=noderotation.io%2Fsurge-for",
        "GET /api/v1/nodes labelSelector=noderotation.io%2Fmarked%3Dtrue",
        "GET /apis/karpenter.sh/v1/nodeclaims",
        "GET /apis/karpenter.sh/v1/nodeclaims continue=more",
        "GET /apis/karpenter.sh/v1/nodepools",
        "GET /apis/noderotation.io/v1alpha1/rotationpolicies",
    ];
    assert_eq!(lists, expected);
}
