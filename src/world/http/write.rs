//! Creates, merge patches and deletes, as the API server judges them.

use serde_json::{Map, Value, json};

use super::{
    Actor, State,
    answer::Answer,
    limits,
    merge::merge,
    pods,
    request::Call,
    resource::{CORE_EVENTS, EVENTS, Key, Kind, LIMITS, PODS, POLICIES, QUOTAS, VOLUME_CLAIMS},
    store::is_held,
    volumes, workloads,
};
use crate::{api::time::to_annotation, policy::read};

/// What only the API server writes.
const OWN: [&str; 6] = ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"];

impl State {
    /// POST.
    pub fn create(&mut self, call: &Call, actor: Actor) -> Result<Answer, Answer> {
        if call.kind == CORE_EVENTS {
            return Err(Answer::not_allowed("the embedded world takes Events of events.k8s.io/v1 only"));
        }
        let mut object = call.body.clone();
        if !object.is_object() {
            return Err(Answer::bad_request("the body is no object"));
        }
        let (kind, version) = (call.kind.kind, call.kind.api_version());
        let is_kind = object["kind"].as_str().is_none_or(|said| said == kind);
        if !is_kind || object["apiVersion"].as_str().is_none_or(|said| said != version) {
            let why = "the API version in the data does not match the expected API version";
            return Err(Answer::bad_request(format!("{why} ({version}, {kind})")));
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let name = self.name_of(call, &mut object)?;
        let key = Key::of(call.kind, &call.namespace, &name);
        validate(call.kind, &name, &object)?;
        self.meets_limits(call, &name, &mut object)?;
        self.meets_quotas(call, &name, &object)?;
        if let Some(found) = self.get(call.kind, &key) {
            return Err(Answer::exists(call.kind, &name, !found["metadata"]["deletionTimestamp"].is_null()));
        }
        self.furnish(call, &mut object);
        if call.is_dry_run() {
            return Ok(Answer::created(object));
        }
        if self.create_live(call.kind, &object) {
            self.whole.insert(key.clone(), object);
            return Ok(Answer::created(self.get(call.kind, &key).unwrap_or_default()));
        }
        let object = self.put(call.kind, key, object);
        if call.kind == EVENTS && actor == Actor::Program {
            self.hear(&object);
        }
        Ok(Answer::created(object))
    }

    fn name_of(&mut self, call: &Call, object: &mut Value) -> Result<String, Answer> {
        let metadata = &mut object["metadata"];
        match metadata["namespace"].as_str() {
            Some(namespace) if namespace != call.namespace => {
                return Err(Answer::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
            }
            _ if call.kind.namespaced => metadata["namespace"] = json!(call.namespace),
            _ => {}
        }
        let prefix = metadata["generateName"].as_str().unwrap_or_default().to_owned();
        match metadata["name"].as_str().unwrap_or_default() {
            "" if prefix.is_empty() => {
                Err(Answer::invalid(call.kind, "", "metadata.name", "Required value: name or generateName is required"))
            }
            "" => {
                self.version += 1;
                let name = format!("{prefix}{:05}", self.version);
                metadata["name"] = json!(name);
                Ok(name)
            }
            name => Ok(name.to_owned()),
        }
    }

    /// What the API server gives to every new object.
    fn furnish(&mut self, call: &Call, object: &mut Value) {
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.version + 1);
        let now = to_annotation(self.now());
        let metadata = &mut object["metadata"];
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|field, _| !OWN.contains(&field.as_str()));
        }
        metadata["uid"] = json!(uid);
        metadata["creationTimestamp"] = json!(now);
        if call.kind.has_generation {
            metadata["generation"] = json!(1);
        }
        tidy(metadata);
        if let Some(fields) = object.as_object_mut().filter(|_| call.kind.has_status && call.kind.custom) {
            fields.remove("status");
        }
        if call.kind == PODS {
            object["status"] = json!({"phase": "Pending"});
        }
        if call.kind == LIMITS {
            limits::furnish(object);
        }
        volumes::furnish(call.kind, object);
    }

    /// PATCH, of which only merge patches are understood.
    pub fn patch(&mut self, call: &Call) -> Result<Answer, Answer> {
        if call.media != "application/merge-patch+json" {
            return Err(Answer::unsupported_media());
        }
        let before = self.get(call.kind, &call.key()).ok_or_else(|| Answer::not_found(call.kind, &call.name))?;
        let patch = &call.body;
        if !patch.is_object() {
            return Err(Answer::bad_request("the patch is no object"));
        }
        let mut after = before.clone();
        merge(&mut after, patch);
        meets(call, &before, &after)?;
        settle(call, &before, &mut after);
        validate(call.kind, &call.name, &after)?;
        match call.kind {
            kind if kind == PODS => pods::meets_update(call, &before, &after)?,
            kind if kind == VOLUME_CLAIMS => volumes::meets_update(call, &before, &after)?,
            _ => {}
        }
        if after == before {
            return Ok(Answer::ok(before));
        }
        if call.kind.has_generation && after["spec"] != before["spec"] {
            after["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
        }
        if call.is_dry_run() {
            return Ok(Answer::ok(after));
        }
        let stored = match self.live(call.kind, &call.key()) {
            // A status has a path of its own, on which nothing else is written.
            Some((index, _)) => self.patch_live(index, call, if call.is_status { &Value::Null } else { patch }, &before, after)?,
            None => self.put(call.kind, call.key(), after),
        };
        Ok(Answer::ok(stored))
    }

    /// DELETE.
    pub fn delete(&mut self, call: &Call, actor: Actor) -> Result<Answer, Answer> {
        let key = call.key();
        let object = self.get(call.kind, &key).ok_or_else(|| Answer::not_found(call.kind, &call.name))?;
        let wanted = &call.body["preconditions"];
        for (field, label, told) in [
            ("uid", "UID", "The object might have been deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "The object might have been modified"),
        ] {
            let (wanted, found) = (wanted[field].as_str(), object["metadata"][field].as_str().unwrap_or_default());
            if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
                let why = format!("the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). {told}");
                return Err(Answer::unmet(call.kind, &call.name, &why));
            }
        }
        let live = self.live(call.kind, &key).map(|(index, _)| index);
        if call.is_dry_run() {
            return Ok(self.deleted(call, object, live.is_some()));
        }
        if let Some(index) = live {
            self.delete_live(index, call, actor, &object)?;
            self.part_from_gone();
            let left = self.get(call.kind, &key).unwrap_or(object);
            return Ok(Answer::ok(left));
        }
        let answer = self.deleted(call, object.clone(), false);
        if is_held(&object) && object["metadata"]["deletionTimestamp"].is_null() {
            self.put(call.kind, key, answer.body.clone());
        } else if !is_held(&object) {
            self.shelf.remove(&key);
            if call.kind == POLICIES {
                self.share_policies();
            }
        }
        Ok(answer)
    }

    /// What a delete is answered: the object where something is left of it, and for Pods.
    fn deleted(&self, call: &Call, mut object: Value, is_live: bool) -> Answer {
        let held = is_held(&object);
        if !held && call.kind == QUOTAS {
            return Answer::ok(object);
        }
        if !held && !is_live && call.kind.kind != "Pod" {
            return Answer::deleted(call.kind, &call.name, &object["metadata"]["uid"]);
        }
        let metadata = &mut object["metadata"];
        if metadata["deletionTimestamp"].is_null() {
            metadata["deletionTimestamp"] = json!(to_annotation(self.now()));
            metadata["deletionGracePeriodSeconds"] = json!(0);
            if let Some(generation) = metadata["generation"].as_i64() {
                metadata["generation"] = json!(generation + 1);
            }
        }
        Answer::ok(object)
    }
}

/// What a patch demands of the object: its version, its UID, its name.
fn meets(call: &Call, before: &Value, after: &Value) -> Result<(), Answer> {
    let same = |field: &str| after["metadata"][field] == before["metadata"][field];
    let patched = &call.body["metadata"];
    if let Some(name) = patched["name"].as_str().filter(|name| *name != call.name) {
        let why = format!("the name of the object ({name}) does not match the name on the URL ({})", call.name);
        return Err(Answer::bad_request(why));
    }
    if !patched["uid"].is_null() && !same("uid") {
        let why = format!("Invalid value: {}: field is immutable", patched["uid"]);
        return Err(Answer::invalid(call.kind, &call.name, "metadata.uid", &why));
    }
    if patched["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) && !same("resourceVersion") {
        return Err(Answer::stale(call.kind, &call.name));
    }
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let known = finalizers(before);
    let new: Vec<Value> = finalizers(after).into_iter().filter(|finalizer| !known.contains(finalizer)).collect();
    if !before["metadata"]["deletionTimestamp"].is_null() && !new.is_empty() {
        let why = format!("Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {new:?}");
        return Err(Answer::invalid(call.kind, &call.name, "metadata.finalizers", &why));
    }
    Ok(())
}

/// Undoes what this path doesn't write.
fn settle(call: &Call, before: &Value, after: &mut Value) {
    let restore = |after: &mut Value, before: &Value, field: &str| {
        let Some(after) = after.as_object_mut() else { return };
        match before.get(field) {
            Some(value) => drop(after.insert(field.into(), value.clone())),
            None => drop(after.remove(field)),
        }
    };
    if call.is_status {
        let status = after["status"].take();
        *after = before.clone();
        after["status"] = status;
    } else if call.kind.has_status {
        restore(after, before, "status");
    }
    if !after["metadata"].is_object() {
        after["metadata"] = before["metadata"].clone();
    }
    for field in OWN {
        restore(&mut after["metadata"], &before["metadata"], field);
    }
    for field in ["kind", "apiVersion"] {
        restore(after, before, field);
    }
    tidy(&mut after["metadata"]);
}

/// Empty lists are none.
fn tidy(metadata: &mut Value) {
    let is_empty =
        |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|field, value| !(["annotations", "labels", "finalizers"].contains(&field.as_str()) && is_empty(value)));
    }
}

const NAME: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
     with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What can't be stored.
fn validate(kind: &Kind, name: &str, object: &Value) -> Result<(), Answer> {
    let is_label = |part: &str| {
        !part.is_empty()
            && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Err(Answer::invalid(kind, name, "metadata.name", &format!("Invalid value: {name:?}: {NAME}")));
    }
    for field in ["labels", "annotations"] {
        let list = &object["metadata"][field];
        let strings = list.as_object().into_iter().flatten().all(|(_, value)| value.is_string());
        if !strings || !(list.is_null() || list.is_object()) {
            let why = "only texts can be stored";
            return Err(match kind.custom {
                true => Answer::invalid(kind, name, &format!("metadata.{field}"), why),
                false => Answer::bad_request(format!("metadata.{field}: {why}")),
            });
        }
    }
    for value in object["metadata"]["labels"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
        let is_inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let ends =
            value.starts_with(|first: char| first.is_ascii_alphanumeric()) && value.ends_with(|last: char| last.is_ascii_alphanumeric());
        if !value.is_empty() && (value.len() > 63 || !value.chars().all(is_inner) || !ends) {
            return Err(Answer::invalid(
                kind,
                name,
                "metadata.labels",
                &format!("Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters"),
            ));
        }
    }
    if kind == POLICIES
        && let Some(problem) = read::policy(object).problems.first()
    {
        return Err(Answer::invalid(kind, name, &problem.path, &problem.to_string()));
    }
    workloads::validate(kind, name, object)?;
    if kind == EVENTS {
        let is_micro = |text: &str| text.len() == "2026-11-30T07:00:00.000000Z".len();
        if !object["eventTime"].as_str().is_some_and(is_micro) {
            return Err(Answer::bad_request("Event in version \"v1\" cannot be handled as a Event: eventTime has to have six decimals"));
        }
    }
    Ok(())
}
