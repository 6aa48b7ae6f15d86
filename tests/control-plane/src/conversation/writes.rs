//! Creates, patches, deletes.

use http::Method;
use serde_json::{Value, json};

use super::{Ask, Conversation, LEASES, MAPS, POLICIES, POOLS, lease, map, policy, pool};

impl Conversation {
    pub(super) async fn creates(&mut self) {
        self.chapter("Creates");
        let shown = ["/kind", "/metadata/name", "/metadata/namespace", "/metadata/generation", "/spec/holderIdentity"];
        self.ask(Ask::post(LEASES, lease("talk")), &shown).await;
        self.ask(Ask::post(LEASES, lease("talk")), &["/details"]).await;
        self.ask(Ask::get(format!("{LEASES}/absent")), &["/details", "/kind", "/status", "/code"]).await;
        self.ask_briefly(Ask::get("/apis/karpenter.sh/v1/nodeflowers")).await;
        self.ask_briefly(Ask::get("/apis/karpenter.sh/v9/nodepools")).await;
        self.ask(Ask::post(LEASES, lease("")), &[]).await;
        self.ask(Ask::post(LEASES, lease("No_Name")), &["/details/name", "/details/kind", "/details/causes/0/field"]).await;
        let mut elsewhere = lease("elsewhere");
        elsewhere["metadata"]["namespace"] = json!("kube-system");
        self.ask(Ask::post(LEASES, elsewhere), &[]).await;
        self.ask_briefly(Ask::post(LEASES, map("map", json!({})))).await;
        self.ask_briefly(Ask { body: b"{\"broken\"".to_vec(), ..Ask::post(LEASES, json!({})) }).await;
        self.ask_briefly(Ask::post(MAPS, map("label", json!({"a": "not a value"})))).await;
        self.ask_briefly(Ask::post(MAPS, map("number", json!({"a": 1})))).await;
        let mut bare = policy("bare");
        bare["spec"] = json!({"nodePoolSelector": {}});
        self.ask_briefly(Ask::post(POLICIES, bare)).await;
        self.ask_briefly(Ask::new(Method::POST, format!("{LEASES}/talk"))).await;
        self.ask_briefly(Ask::new(Method::PATCH, LEASES)).await;
    }

    pub(super) async fn patches(&mut self) {
        self.chapter("Merge patches");
        let path = format!("{POOLS}/talk");
        let made = self.ask(Ask::post(POOLS, pool("talk")), &["/metadata/generation", "/spec/limits"]).await;
        let first = made["metadata"]["resourceVersion"].clone();
        let annotations = json!({"a": "1", "b": "2", "c/d": "3"});
        let fresh = json!({"metadata": {"resourceVersion": first, "annotations": annotations}});
        let shown = ["/metadata/annotations", "/metadata/labels", "/metadata/generation", "/spec/weight", "/spec/limits"];
        self.ask(Ask::patch(&path, fresh.clone()), &shown).await;
        self.ask(Ask::patch(&path, fresh), &["/details"]).await;
        self.ask(Ask::patch(&path, json!({"metadata": {"annotations": {"a": null, "absent": null}}})), &shown).await;
        let labels = json!({"metadata": {"labels": {"rotate": "web"}, "annotations": {"b": "4"}}});
        self.ask(Ask::patch(&path, labels.clone()), &shown).await;
        let before = self.version(&path).await;
        self.ask(Ask::patch(&path, labels), &[]).await;
        let after = self.version(&path).await;
        self.note(format!("  a patch that changes nothing gives a new version: {}", before != after));
        self.ask(Ask::patch(&path, json!({"metadata": {"annotations": null}})), &shown).await;
        self.ask_briefly(Ask::patch(&path, json!({"metadata": {"annotations": {"a": 1}}}))).await;
        self.ask_briefly(Ask::patch(&path, json!({"metadata": {"labels": {"a": "not a value"}}}))).await;
        self.ask_briefly(Ask::patch(&path, json!({"metadata": {"name": "other"}}))).await;
        self.ask_briefly(Ask::patch(&path, json!([]))).await;
        self.ask_briefly(Ask { media: "text/plain", ..Ask::patch(&path, json!({})) }).await;
        self.hide(&made["metadata"]["uid"], "<uid>");
        let stranger = "11111111-2222-4333-8444-555555555555";
        self.ask(Ask::patch(&path, json!({"metadata": {"uid": stranger}})), &[]).await;
        self.ask(Ask::patch(format!("{POOLS}/absent"), json!({})), &[]).await;
        let lease = format!("{LEASES}/talk");
        let spec = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        self.ask(Ask::patch(&lease, spec), &["/spec", "/metadata/generation"]).await;
        self.ask(Ask::patch(&lease, json!({"metadata": {"resourceVersion": first}, "spec": {"leaseDurationSeconds": 2}})), &[]).await;
    }

    pub(super) async fn status_and_generation(&mut self) {
        self.chapter("Status and generation");
        self.ask(Ask::post(POLICIES, policy("talk")), &["/metadata/generation", "/status"]).await;
        let path = format!("{POLICIES}/talk");
        let status = json!({"status": {"observedGeneration": 1}});
        let shown = ["/metadata/generation", "/metadata/annotations", "/spec/suspend", "/status"];
        self.ask(Ask::patch(&path, status.clone()), &shown).await;
        self.ask(Ask::patch(format!("{path}/status"), status), &shown).await;
        let both = json!({"metadata": {"annotations": {"a": "1"}}, "spec": {"suspend": true}, "status": {"observedGeneration": 2}});
        self.ask(Ask::patch(format!("{path}/status"), both.clone()), &shown).await;
        self.ask(Ask::patch(&path, both), &shown).await;
        let stale = json!({"metadata": {"resourceVersion": "1"}, "status": {"observedGeneration": 3}});
        self.ask(Ask::patch(format!("{path}/status"), stale), &[]).await;
        self.ask_briefly(Ask::patch(&path, json!({"spec": {"maintenanceWindows": []}}))).await;
        self.ask_briefly(Ask::patch(format!("{POLICIES}/absent/status"), json!({"status": {}}))).await;
        self.ask_briefly(Ask::patch(format!("{LEASES}/talk/status"), json!({"status": {}}))).await;
    }

    pub(super) async fn dry_runs(&mut self) {
        self.chapter("Dry runs");
        self.ask(Ask::post(format!("{LEASES}?dryRun=All"), lease("dry")), &["/metadata/name"]).await;
        self.ask(Ask::get(format!("{LEASES}/dry")), &[]).await;
        self.ask(Ask::post(format!("{LEASES}?dryRun=All"), lease("talk")), &[]).await;
        let path = format!("{LEASES}/talk");
        let before = self.version(&path).await;
        let patch = json!({"metadata": {"resourceVersion": before, "annotations": {"dry": "1"}}});
        self.ask(Ask::patch(format!("{path}?dryRun=All"), patch), &["/metadata/annotations"]).await;
        let stale = json!({"metadata": {"resourceVersion": "1", "annotations": {"dry": "1"}}});
        self.ask(Ask::patch(format!("{path}?dryRun=All"), stale), &[]).await;
        self.ask_briefly(Ask::delete(&path, json!({"dryRun": ["All"]}))).await;
        self.ask_briefly(Ask::delete(format!("{path}?dryRun=All"), Value::Null)).await;
        self.ask(Ask::get(&path), &["/metadata/annotations", "/metadata/deletionTimestamp"]).await;
        let after = self.version(&path).await;
        self.note(format!("  a dry run gives a new version: {}", before != after));
    }

    pub(super) async fn deletes(&mut self) {
        self.chapter("Deletes");
        let path = format!("{LEASES}/talk");
        let lease = self.ask(Ask::get(&path), &[]).await;
        let uid = self.hide(&lease["metadata"]["uid"], "<uid>");
        let version = self.hide(&lease["metadata"]["resourceVersion"], "(version)");
        let stranger = "11111111-2222-4333-8444-555555555555";
        self.ask(Ask::delete(&path, json!({"preconditions": {"uid": stranger}})), &[]).await;
        self.ask(Ask::delete(&path, json!({"preconditions": {"resourceVersion": "1"}})), &[]).await;
        let shown = ["/kind", "/status", "/details/name", "/details/kind", "/details/group"];
        self.ask(Ask::delete(&path, json!({"preconditions": {"uid": uid, "resourceVersion": version}})), &shown).await;
        self.ask(Ask::delete(&path, json!({"preconditions": {"uid": uid}})), &[]).await;
        self.ask(Ask::delete(format!("{POOLS}/talk"), Value::Null), &shown).await;
        self.ask(Ask::delete(format!("{POLICIES}/talk"), Value::Null), &shown).await;
        self.ask(Ask::get(format!("{POLICIES}/talk")), &["/details"]).await;
    }

    pub(super) async fn finalizers(&mut self) {
        self.chapter("Finalizers");
        for (collection, object) in [(LEASES, lease("held")), (POOLS, pool("held"))] {
            let mut object = object;
            object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
            let path = format!("{collection}/held");
            self.ask(Ask::post(collection, object.clone()), &["/metadata/finalizers"]).await;
            let uid = self.ask(Ask::delete(&path, Value::Null), &["/kind", "/metadata/name", "/metadata/generation"]).await;
            let is_going = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
            self.note(format!("  is going: {}", is_going(&uid)));
            let version = self.version(&path).await;
            self.ask(Ask::delete(&path, Value::Null), &["/kind", "/metadata/name"]).await;
            let again = self.version(&path).await;
            self.note(format!("  another delete gives a new version: {}", version != again));
            self.ask(Ask::post(collection, object), &[]).await;
            self.ask(Ask::patch(&path, json!({"metadata": {"annotations": {"still": "here"}}})), &["/metadata/annotations"]).await;
            let more = json!({"metadata": {"finalizers": ["example.com/one", "example.com/three"]}});
            self.ask_briefly(Ask::patch(&path, more)).await;
            self.ask(Ask::patch(&path, json!({"metadata": {"deletionTimestamp": null}})), &[]).await;
            let kept = self.ask(Ask::get(&path), &["/metadata/finalizers"]).await;
            self.note(format!("  is going: {}", is_going(&kept)));
            self.ask(Ask::patch(&path, json!({"metadata": {"finalizers": ["example.com/one"]}})), &["/metadata/finalizers"]).await;
            self.ask(Ask::patch(&path, json!({"metadata": {"finalizers": null}})), &["/metadata/name", "/metadata/finalizers"]).await;
            self.ask(Ask::get(&path), &[]).await;
        }
    }
}
