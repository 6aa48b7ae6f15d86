//! Somebody with `kubectl` at the HTTP door.

use http::{Method, Request};
use kube::core::Status;
use serde_json::Value;

use crate::world::http::{Actor, World};

pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// What is answered; or the code of the refusal.
pub async fn ask(world: &World, method: Method, path: &str, body: Value) -> Result<Value, u16> {
    send(world, method, path, body).await.map_err(|status| status.code)
}

/// The refusal of a request.
pub async fn refusal(world: &World, method: Method, path: &str, body: Value) -> Status {
    *send(world, method, path, body).await.unwrap_err()
}

async fn send(world: &World, method: Method, path: &str, body: Value) -> Result<Value, Box<Status>> {
    let request = Request::builder().method(method).uri(path).header("Content-Type", "application/merge-patch+json");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let answer = world.client(Actor::Operator).request(request.body(body).unwrap()).await;
    answer.map_err(|error| match error {
        kube::Error::Api(status) => status,
        other => panic!("{other}"),
    })
}

pub async fn get(world: &World, path: &str) -> Value {
    ask(world, Method::GET, path, Value::Null).await.unwrap()
}

/// The names of a list's objects.
pub async fn names(world: &World, path: &str) -> Vec<String> {
    let list = get(world, path).await;
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
