//! Volumes, their claims, and what may be changed of Pods.

use serde_json::{Value, json};

use super::{Ask, CLAIMS, Conversation, PODS, VOLUMES, pod};

impl Conversation {
    /// Patches of a Pod that nobody runs.
    pub(super) async fn pod_patches(&mut self) {
        self.chapter("Patches of Pods");
        let path = format!("{PODS}/talk");
        let mut object = pod("talk", json!({"set": "patched"}));
        object["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
        self.ask(Ask::post(PODS, object), &["/metadata/generation"]).await;
        let shown = ["/metadata/annotations", "/metadata/labels", "/metadata/generation"];
        let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}, "labels": {"team": "shop"}}});
        self.ask(Ask::patch(format!("{path}?dryRun=All"), protect.clone()), &shown).await;
        self.ask(Ask::patch(&path, protect), &shown).await;
        self.list(&format!("{PODS}?labelSelector=team=shop")).await;
        self.ask(Ask::patch(&path, json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}})), &shown).await;
        for spec in [
            json!({"nodeName": "talk"}),
            json!({"nodeSelector": {"a": "b"}}),
            json!({"priority": 7}),
            json!({"tolerations": null}),
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}),
        ] {
            self.ask_briefly(Ask::patch(format!("{path}?dryRun=All"), json!({"spec": spec}))).await;
            self.ask_briefly(Ask::patch(&path, json!({"spec": spec}))).await;
        }
        let image = json!({"spec": {"containers": [{"name": "app", "image": "other"}]}});
        self.ask(Ask::patch(&path, image), &["/spec/containers/0/image", "/metadata/generation"]).await;
        self.ask(Ask::patch(&path, json!({"spec": {"activeDeadlineSeconds": 100}})), &["/spec/activeDeadlineSeconds"]).await;
        self.ask_briefly(Ask::delete(&path, json!({"gracePeriodSeconds": 0}))).await;
    }

    /// A claim and a volume that have nothing to do with each other.
    pub(super) async fn volumes(&mut self) {
        self.chapter("Volumes");
        let path = format!("{CLAIMS}/talk");
        self.ask(Ask::get(&path), &["/details"]).await;
        let storage = json!({"storage": "1Gi"});
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "talk", "labels": {"set": "volumes"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": storage}, "storageClassName": "nobodys"},
        });
        let shown = ["/kind", "/metadata/namespace", "/metadata/finalizers", "/spec", "/status"];
        self.ask(Ask::post(CLAIMS, claim), &shown).await;
        self.list(&format!("{CLAIMS}?labelSelector=set=volumes")).await;
        self.list(&format!("{CLAIMS}?labelSelector=set=other")).await;
        self.list("/api/v1/persistentvolumeclaims?fieldSelector=metadata.name=talk,metadata.namespace=default").await;
        self.ask_briefly(Ask::get(format!("{CLAIMS}?fieldSelector=spec.volumeName=talk"))).await;
        self.ask_briefly(Ask::get(format!("{VOLUMES}?fieldSelector=status.phase=Bound"))).await;
        self.ask(Ask::patch(&path, json!({"metadata": {"annotations": {"a": "1"}}})), &["/metadata/annotations/a"]).await;
        self.ask_briefly(Ask::patch(&path, json!({"spec": {"accessModes": ["ReadWriteMany"]}}))).await;
        self.ask(Ask::delete(format!("{path}?dryRun=All"), Value::Null), &["/kind", "/metadata/finalizers"]).await;
        self.ask(Ask::delete(&path, Value::Null), &["/kind", "/metadata/finalizers"]).await;
        let path = format!("{VOLUMES}/talk");
        self.ask(Ask::get(&path), &["/details"]).await;
        let terms = json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]);
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "talk"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": storage, "csi": {"driver": "zonal.example.com", "volumeHandle": "talk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "storageClassName": "nobodys",
            },
        });
        let shown = ["/kind", "/metadata/finalizers", "/spec", "/status/phase"];
        self.ask(Ask::post(format!("{VOLUMES}?dryRun=All"), volume.clone()), &shown).await;
        self.ask(Ask::post(VOLUMES, volume), &shown).await;
        self.list(&format!("{VOLUMES}?fieldSelector=metadata.name=talk")).await;
        self.ask(Ask::delete(&path, Value::Null), &["/kind", "/metadata/finalizers"]).await;
    }
}
