//! Lists, and what is special about some kinds.

use serde_json::{Value, json};

use super::{Ask, Conversation, EVENTS, MAPS, NODES, PODS, POLICIES, POOLS, map, pod, policy, pool};

impl Conversation {
    pub(super) async fn pages(&mut self, expire: impl AsyncFn(String) -> String) {
        self.chapter("Pages");
        for name in ["page-3", "page-1", "page-5", "page-2", "page-4"] {
            self.ask(Ask::post(MAPS, map(name, json!({"set": "pages"}))), &[]).await;
        }
        let list = format!("{MAPS}?labelSelector=set%3Dpages");
        self.list(&list).await;
        let token = |page: &Value| page["metadata"]["continue"].as_str().unwrap_or_default().replace('=', "%3D");
        let first = self.list(&format!("{list}&limit=2")).await;
        // Later pages are of the moment of the first.
        self.ask(Ask::delete(format!("{MAPS}/page-4"), Value::Null), &[]).await;
        self.ask(Ask::post(MAPS, map("page-45", json!({"set": "pages"}))), &[]).await;
        let mut next = token(&first);
        for _ in 0..3 {
            if next.is_empty() {
                break;
            }
            let (code, page) = self.send(&Ask::get(format!("{list}&limit=2&continue={next}"))).await;
            let names: Vec<&str> =
                page["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str()).collect();
            let same = page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"];
            self.note(format!("next page\n  {code} names: {names:?}, of the same version: {same}"));
            next = token(&page);
        }
        self.note(format!("  more: {}", !next.is_empty()));
        self.list(&format!("{list}&limit=100")).await;
        let (code, _) = self.send(&Ask::get(format!("{list}&limit=2&continue=nonsense"))).await;
        self.note(format!("a continuation that is none\n  {code}"));
        let (_, page) = self.send(&Ask::get(format!("{list}&limit=2"))).await;
        let old = expire(token(&page)).await;
        let (code, refusal) = self.send(&Ask::get(format!("{list}&limit=2&continue={old}"))).await;
        self.note(format!("a continuation that is too old\n  {code} {}: {}", refusal["reason"], refusal["message"]));
        let (code, page) = self.send(&Ask::get(format!("{list}&limit=10&continue={}", token(&refusal)))).await;
        let names: Vec<&str> =
            page["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str()).collect();
        self.note(format!("the one that it offers\n  {code} names: {names:?}"));
    }

    pub(super) async fn selectors(&mut self) {
        self.chapter("Selectors");
        self.ask(Ask::post(MAPS, map("green", json!({"set": "colours", "colour": "green", "example.com/own": "true"}))), &[]).await;
        self.ask(Ask::post(MAPS, map("red", json!({"set": "colours", "colour": "red"}))), &[]).await;
        self.ask(Ask::post(MAPS, map("plain", json!({"set": "colours"}))), &[]).await;
        for selector in [
            "set=colours",
            "set==colours,colour",
            "set=colours,!colour",
            "set=colours,colour!=red",
            "set=colours,colour%20in%20(red,blue)",
            "set=colours,colour%20notin%20(red)",
            "example.com/own=true",
            "example.com/own=false",
            "set=absent",
        ] {
            self.list(&format!("{MAPS}?labelSelector={selector}")).await;
        }
        self.list(&format!("{MAPS}?labelSelector=set=colours&fieldSelector=metadata.name=red")).await;
        self.list(&format!("{MAPS}?labelSelector=set=colours&fieldSelector=metadata.name!=red")).await;
        for broken in ["labelSelector=a%20b", "labelSelector=a%20in%20b", "fieldSelector=spec.colour=red", "fieldSelector=nonsense"] {
            self.ask_briefly(Ask::get(format!("{MAPS}?{broken}"))).await;
        }
        for collection in [PODS, NODES, POOLS] {
            self.ask_briefly(Ask::get(format!("{collection}?fieldSelector=spec.colour=red"))).await;
        }
    }

    pub(super) async fn forms(&mut self) {
        self.chapter("Forms of lists");
        let mut labelled = pool("form");
        labelled["metadata"]["labels"] = json!({"set": "forms"});
        self.ask(Ask::post(POOLS, labelled), &[]).await;
        let shown = ["/kind", "/apiVersion", "/items/0/kind", "/items/0/apiVersion", "/items/0/metadata/name", "/items/0/spec/weight"];
        let full = format!("{POOLS}?labelSelector=set=forms");
        self.ask(Ask::get(&full), &shown).await;
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        self.ask(Ask { accept: metadata, ..Ask::get(&full) }, &shown).await;
        let maps = format!("{MAPS}?labelSelector=set=colours&limit=1");
        self.ask(Ask::get(&maps), &shown).await;
        self.ask(Ask { accept: metadata, ..Ask::get(&maps) }, &shown).await;
        let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        self.ask(Ask { accept: one, ..Ask::get(format!("{POOLS}/form")) }, &["/kind", "/apiVersion", "/metadata/name", "/spec"]).await;
        self.ask(Ask::get(format!("{POOLS}?labelSelector=set=none")), &["/items", "/kind", "/metadata/continue"]).await;
        for name in ["a", "b", "c"] {
            self.ask(Ask::post(POLICIES, policy(name)), &[]).await;
        }
        let shown = ["/metadata/remainingItemCount", "/items/0/metadata/name"];
        self.ask(Ask::get(format!("{POLICIES}?limit=1")), &shown).await;
        self.ask(Ask::delete(format!("{POOLS}/form"), Value::Null), &[]).await;
    }

    pub(super) async fn pods(&mut self) {
        self.chapter("Pods and Nodes");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "talk", "labels": {"set": "nodes"}}});
        self.ask(Ask::post(NODES, node), &["/metadata/labels"]).await;
        self.ask(Ask::patch(format!("{NODES}/talk"), json!({"spec": {"unschedulable": true}})), &["/spec/unschedulable"]).await;
        self.list(&format!("{NODES}?labelSelector=set=nodes&fieldSelector=spec.unschedulable=true")).await;
        self.ask(Ask::patch(format!("{NODES}/talk"), json!({"spec": {"unschedulable": null}})), &["/spec/unschedulable"]).await;
        self.list(&format!("{NODES}?labelSelector=set=nodes&fieldSelector=spec.unschedulable=false")).await;
        self.ask(Ask::post(PODS, pod("waits", json!({"set": "pods"}))), &["/status/phase"]).await;
        let mut bound = pod("bound", json!({"set": "pods"}));
        bound["spec"]["nodeName"] = json!("talk");
        self.ask(Ask::post(PODS, bound), &["/spec/nodeName"]).await;
        self.list("/api/v1/pods?fieldSelector=spec.nodeName=talk").await;
        self.list("/api/v1/pods?fieldSelector=spec.nodeName=talk,metadata.namespace=elsewhere").await;
        self.list(&format!("{PODS}?labelSelector=set=pods&fieldSelector=spec.nodeName=")).await;
        self.list(&format!("{PODS}?labelSelector=set=pods&fieldSelector=spec.nodeName!=talk")).await;
        self.list(&format!("{PODS}?labelSelector=set=pods&fieldSelector=status.phase=Pending")).await;
        let made = self.ask(Ask::get(format!("{PODS}/waits")), &["/metadata/namespace"]).await;
        let uid = made["metadata"]["uid"].clone();
        let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        self.ask(Ask::delete(format!("{PODS}/waits"), now.clone()), &["/kind", "/metadata/name"]).await;
        self.ask(Ask::delete(format!("{PODS}/waits"), now), &[]).await;
        self.ask_briefly(Ask::delete(format!("{PODS}/bound"), json!({"gracePeriodSeconds": 0}))).await;
        self.ask_briefly(Ask::delete(format!("{NODES}/talk"), Value::Null)).await;
    }

    pub(super) async fn events(&mut self) {
        self.chapter("Events");
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "talk.1", "namespace": "default"},
            "eventTime": "2026-11-30T07:00:00.000000Z", "reportingController": "example.com/talk", "reportingInstance": "me",
            "action": "Talk", "reason": "Talked", "type": "Normal", "note": "Something was said.",
            "regarding": {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "talk"},
        });
        self.ask(Ask::post(EVENTS, event.clone()), &["/kind", "/note", "/regarding/name"]).await;
        self.ask(Ask::post(EVENTS, event.clone()), &[]).await;
        let mut coarse = event;
        coarse["metadata"]["name"] = json!("talk.2");
        coarse["eventTime"] = json!("2026-11-30T07:00:00Z");
        self.ask_briefly(Ask::post(EVENTS, coarse)).await;
        for fields in [
            "reportingController=example.com/talk",
            "reportingController=example.com/talk,reason=Talked,type=Normal",
            "regarding.kind=NodePool,regarding.name=talk",
            "regarding.kind=Pod,regarding.name=talk",
        ] {
            self.list(&format!("{EVENTS}?fieldSelector={fields}")).await;
        }
        let shown = ["/items/0/message", "/items/0/involvedObject/name", "/items/0/reportingComponent"];
        let old = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=talk,involvedObject.kind=NodePool";
        self.ask(Ask::get(old), &shown).await;
        self.ask_briefly(Ask::get(format!("{EVENTS}?fieldSelector=note=Something"))).await;
    }
}
