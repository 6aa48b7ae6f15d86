//! What a LimitRange gives to Pods, and what it refuses.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Ask, Conversation, LIMITS, PODS, pod};

impl Conversation {
    pub(super) async fn limits(&mut self) {
        self.chapter("Limits");
        let dry = format!("{PODS}?dryRun=All");
        let given = ["/metadata/annotations", "/spec/containers/0/resources"];
        self.bound(json!({"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"memory": "64Mi"}})).await;
        self.ask(Ask::post(&dry, pod("one", json!({}))), &given).await;
        self.ask(Ask::post(&dry, asking(json!({"requests": {"cpu": "250m"}}))), &given).await;
        self.ask(Ask::post(&dry, asking(json!({"limits": {"cpu": "2", "memory": "1Gi"}}))), &given).await;
        self.ask(Ask::post(&dry, asking(json!({"requests": {"cpu": "1500m"}}))), &["/details"]).await;
        self.ask(Ask::post(PODS, asking(json!({"requests": {"cpu": "1500m"}}))), &[]).await;
        self.unbound().await;
        self.bound(json!({"type": "Container", "max": {"cpu": "1"}})).await;
        for resources in [json!({}), json!({"requests": {"cpu": "2"}}), json!({"limits": {"cpu": "1500m"}})] {
            self.ask(Ask::post(&dry, asking(resources)), &["/spec/containers/0/resources", "/details"]).await;
        }
        self.unbound().await;
        self.bound(json!({"type": "Container", "min": {"memory": "1Gi"}})).await;
        for resources in [json!({}), json!({"requests": {"memory": "512Mi"}}), json!({"requests": {"memory": "2Gi"}})] {
            self.ask(Ask::post(&dry, asking(resources)), &["/spec/containers/0/resources"]).await;
        }
        self.unbound().await;
        self.bound(json!({"type": "Pod", "max": {"cpu": "1"}})).await;
        for resources in [json!({}), json!({"limits": {"cpu": "2"}}), json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}})] {
            self.ask(Ask::post(&dry, asking(resources)), &[]).await;
        }
        self.unbound().await;
        self.ask(Ask::get(format!("{LIMITS}/talk")), &[]).await;
    }

    async fn bound(&mut self, item: Value) {
        let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "talk"}, "spec": {"limits": [item]}});
        self.ask(Ask::post(LIMITS, range), &["/kind", "/spec"]).await;
        self.wait_for_limits(true).await;
    }

    async fn unbound(&mut self) {
        self.ask(Ask::delete(format!("{LIMITS}/talk"), Value::Null), &["/kind"]).await;
        self.wait_for_limits(false).await;
    }

    /// Admission hears of a LimitRange a moment after it is stored.
    async fn wait_for_limits(&self, wanted: bool) {
        for _ in 0..100 {
            let (code, made) = self.send(&Ask::post(format!("{PODS}?dryRun=All"), pod("probe", json!({})))).await;
            let is_bound = code >= 400 || !made["metadata"]["annotations"]["kubernetes.io/limit-ranger"].is_null();
            if is_bound == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn asking(resources: Value) -> Value {
    let mut pod = pod("one", json!({}));
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}
