//! Deployments and StatefulSets, which want no Pods here.

use serde_json::{Value, json};

use super::{Ask, Conversation};

impl Conversation {
    pub(super) async fn controllers(&mut self) {
        self.chapter("Controllers");
        for (plural, kind) in [("deployments", "Deployment"), ("statefulsets", "StatefulSet")] {
            let collection = format!("/apis/apps/v1/namespaces/default/{plural}");
            let path = format!("{collection}/talk");
            self.ask(Ask::get(&path), &["/details"]).await;
            let labels = json!({"app": "talk"});
            let pods = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
            let spec = json!({"replicas": 0, "serviceName": "talk", "selector": {"matchLabels": labels}, "template": pods});
            let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "talk", "labels": labels}, "spec": spec});
            if kind == "Deployment" {
                object["spec"]["serviceName"].take();
            }
            let shown = ["/kind", "/metadata/generation", "/spec/replicas"];
            self.ask(Ask::post(&collection, object), &shown).await;
            self.list(&format!("{collection}?labelSelector=app=talk")).await;
            let scale = json!({"spec": {"replicas": 1}});
            self.ask(Ask::patch(format!("{path}?dryRun=All"), scale), &shown).await;
            self.ask(Ask::get(&path), &shown).await;
            self.ask(Ask::delete(&path, Value::Null), &["/kind", "/details/name", "/details/kind", "/details/group"]).await;
        }
    }
}
