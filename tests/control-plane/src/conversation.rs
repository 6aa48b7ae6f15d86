//! A conversation with an API server, to be had with the real one and with the embedded world's: what is asked, and what of
//! each answer has to be the same.
//!
//! The answers that the real API server gave are committed beside this file. Both are compared with those.

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

mod controllers;
mod limits;
mod lists;
mod quotas;
mod volumes;
mod writes;

/// Where the committed answers are.
pub const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conversation/answers.txt");

/// One side of the conversation, and its notes.
pub struct Conversation {
    client: Client,
    notes: Vec<String>,
    /// What differs from run to run, and what stands for it in the notes.
    known: Vec<(String, &'static str)>,
}

/// A question.
struct Ask {
    method: Method,
    path: String,
    media: &'static str,
    accept: &'static str,
    body: Vec<u8>,
}

impl Ask {
    fn new(method: Method, path: impl Into<String>) -> Ask {
        Ask { method, path: path.into(), media: "application/json", accept: "application/json", body: Vec::new() }
    }

    fn get(path: impl Into<String>) -> Ask {
        Ask::new(Method::GET, path)
    }

    fn post(path: impl Into<String>, body: Value) -> Ask {
        Ask::new(Method::POST, path).body(body)
    }

    fn patch(path: impl Into<String>, body: Value) -> Ask {
        Ask { media: "application/merge-patch+json", ..Ask::new(Method::PATCH, path) }.body(body)
    }

    fn delete(path: impl Into<String>, body: Value) -> Ask {
        let ask = Ask::new(Method::DELETE, path);
        if body.is_null() { ask } else { ask.body(body) }
    }

    fn body(self, body: Value) -> Ask {
        Ask { body: body.to_string().into_bytes(), ..self }
    }
}

impl Conversation {
    /// Has it. `expire` makes a continuation of a list too old, and answers it.
    ///
    /// What is there before: the kinds that the program uses, and nothing of what the conversation creates.
    pub async fn have(client: Client, expire: impl AsyncFn(String) -> String) -> String {
        let mut conversation = Conversation { client, notes: Vec::new(), known: Vec::new() };
        conversation.creates().await;
        conversation.patches().await;
        conversation.status_and_generation().await;
        conversation.dry_runs().await;
        conversation.deletes().await;
        conversation.finalizers().await;
        conversation.pages(expire).await;
        conversation.selectors().await;
        conversation.forms().await;
        conversation.pods().await;
        conversation.pod_patches().await;
        conversation.volumes().await;
        conversation.quotas().await;
        conversation.limits().await;
        conversation.controllers().await;
        conversation.events().await;
        conversation.notes.join("\n") + "\n"
    }

    fn chapter(&mut self, title: &str) {
        self.notes.push(format!("\n# {title}"));
    }

    fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Asks, and notes the code, the error's reason and message, and these parts of the answer.
    async fn ask(&mut self, ask: Ask, shown: &[&str]) -> Value {
        let (code, body) = self.send(&ask).await;
        self.notes.push(format!("{} {}", ask.method, ask.path));
        let mut line = format!("  {code}");
        if code == 0 || code >= 400 {
            line += &format!(" {}: {}", body["reason"].as_str().unwrap_or("-"), body["message"].as_str().unwrap_or("-"));
        }
        for (hidden, name) in &self.known {
            line = line.replace(hidden, name);
        }
        self.notes.push(line);
        for pointer in shown {
            self.notes.push(format!("  {pointer}: {}", body.pointer(pointer).unwrap_or(&Value::Null)));
        }
        body
    }

    /// The same of an error whose words are whoever's: only the code and the reason count.
    async fn ask_briefly(&mut self, ask: Ask) {
        let (code, body) = self.send(&ask).await;
        self.notes.push(format!("{} {}", ask.method, ask.path));
        self.notes.push(format!("  {code} {}", body["reason"].as_str().unwrap_or("-")));
    }

    /// Names of a list's items.
    async fn list(&mut self, path: &str) -> Value {
        let body = self.ask(Ask::get(path), &[]).await;
        let names: Vec<&str> =
            body["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str()).collect();
        self.notes
            .push(format!("  names: {names:?}, more: {}", body["metadata"]["continue"].as_str().is_some_and(|next| !next.is_empty())));
        body
    }

    /// The code and the body; 0, and why, where there is no answer.
    async fn send(&self, ask: &Ask) -> (u16, Value) {
        match self.answer(ask).await {
            Ok(answer) => answer,
            Err(error) => (0, json!({"reason": "no answer", "message": error.to_string()})),
        }
    }

    async fn answer(&self, ask: &Ask) -> Result<(u16, Value), kube::Error> {
        let request = Request::builder()
            .method(ask.method.clone())
            .uri(&ask.path)
            .header("Accept", ask.accept)
            .header("Content-Type", ask.media)
            .body(Body::from(ask.body.clone()))
            .map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await?;
        Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// From now on this text has this name in the notes.
    fn hide(&mut self, text: &Value, name: &'static str) -> String {
        let text = text.as_str().unwrap_or_default().to_owned();
        // Versions are short numbers, which may stand in anything else: only those in brackets are meant.
        let told = if text.len() < 20 { (format!("({text})"), name) } else { (text.clone(), name) };
        self.known.push(told);
        text
    }

    /// The version of an object.
    async fn version(&self, path: &str) -> String {
        let (_, body) = self.send(&Ask::get(path)).await;
        body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
    }
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
/// ConfigMaps, on which lists are shown.
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const NODES: &str = "/api/v1/nodes";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const POLICIES: &str = "/apis/noderotation.io/v1alpha1/rotationpolicies";
const LIMITS: &str = "/api/v1/namespaces/default/limitranges";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 20},
    })
}

fn map(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}})
}

fn pool(name: &str) -> Value {
    let requirement = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"], "minValues": 1});
    let template = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [requirement], "expireAfter": "336h",
    });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": template}, "weight": 7, "limits": {"cpu": 1000, "nodes": 0}},
    })
}

fn policy(name: &str) -> Value {
    let window = json!({"timezone": "UTC", "days": ["Wed"], "start": "02:00", "end": "04:00"});
    json!({
        "apiVersion": "noderotation.io/v1alpha1", "kind": "RotationPolicy", "metadata": {"name": name},
        "spec": {"nodePoolSelector": {"matchLabels": {"nobody": "has-this"}}, "maintenanceWindows": [window]},
    })
}

fn pod(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": "nobody", "automountServiceAccountToken": false, "containers": [{"name": "app", "image": "app"}]},
    })
}
