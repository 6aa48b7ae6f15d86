//! What a ResourceQuota refuses.

use serde_json::{Value, json};

use super::{Ask, Conversation, PODS, QUOTAS, pod};

impl Conversation {
    pub(super) async fn quotas(&mut self) {
        self.chapter("Quotas");
        let dry = format!("{PODS}?dryRun=All");
        self.limit("few", json!({"pods": "0"})).await;
        self.ask(Ask::post(&dry, pod("one", json!({}))), &["/details"]).await;
        self.ask(Ask::post(PODS, pod("one", json!({}))), &["/details"]).await;
        self.ask(Ask::get(format!("{PODS}/one")), &[]).await;
        self.ask(Ask::delete(format!("{QUOTAS}/few"), Value::Null), &["/kind"]).await;
        self.limit("more", json!({"pods": "1"})).await;
        self.ask(Ask::post(&dry, pod("one", json!({}))), &[]).await;
        self.ask(Ask::post(PODS, pod("one", json!({}))), &[]).await;
        self.ask(Ask::post(PODS, pod("one", json!({}))), &[]).await;
        self.ask(Ask::post(&dry, pod("two", json!({}))), &[]).await;
        self.ask(Ask::patch(format!("{PODS}/one"), json!({"metadata": {"labels": {"a": "b"}}})), &["/metadata/labels"]).await;
        self.ask_briefly(Ask::delete(format!("{PODS}/one"), json!({"gracePeriodSeconds": 0}))).await;
        self.ask(Ask::delete(format!("{QUOTAS}/more"), Value::Null), &["/kind"]).await;
        self.limit("small", json!({"requests.cpu": "1", "requests.memory": "1Gi"})).await;
        self.ask(Ask::post(&dry, pod("two", json!({}))), &[]).await;
        for (cpu, memory) in [("2", "512Mi"), ("1500m", "2Gi"), ("500m", "512Mi")] {
            let mut large = pod("two", json!({}));
            large["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu, "memory": memory}});
            self.ask(Ask::post(&dry, large), &[]).await;
        }
        self.ask(Ask::delete(format!("{QUOTAS}/small"), Value::Null), &["/kind"]).await;
    }

    /// Limits the namespace, and waits for nobody to count what is there: it is nothing.
    async fn limit(&mut self, name: &str, hard: Value) {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}});
        self.ask(Ask::post(QUOTAS, quota), &["/kind", "/spec/hard"]).await;
        let used: serde_json::Map<String, Value> =
            hard.as_object().into_iter().flatten().map(|(resource, _)| (resource.clone(), json!("0"))).collect();
        let status = json!({"status": {"hard": hard, "used": used}});
        self.ask(Ask::patch(format!("{QUOTAS}/{name}/status"), status), &["/status"]).await;
    }
}
