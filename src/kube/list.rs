//! Lists: page by page, the next page on its way while this one is read, each item read on its own so that a broken one
//! harms only itself.

use bytes::Bytes;
use http::Request;
use kube::{api::ListParams, core::Request as Resource};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::call::{Api, CallError};
use crate::{api::keys, cluster::Failure, view::Unreadable};

/// Items per page.
const PAGE: u32 = 500;
/// After so many items the reader steps aside, so that on a runtime of one thread the next page's request is sent, and
/// the Lease is renewed, while it reads.
const STRETCH: usize = 16;
/// How often a list is begun at most when its continuation expires (410).
const STARTS: u32 = 4;

/// A list to be read.
#[derive(Debug, Clone)]
pub struct List {
    /// The kind of its items.
    pub kind: &'static str,
    /// Where it is.
    pub path: String,
    /// Selects by label; empty for all.
    pub labels: String,
    /// Selects by field; empty for all.
    pub fields: String,
    /// Only `metadata` of each item.
    pub metadata_only: bool,
}

/// What was read.
#[derive(Debug, PartialEq)]
pub struct Listed<T> {
    /// The items that can be read, in the server's order.
    pub items: Vec<T>,
    /// Those that can't.
    pub unreadable: Vec<Unreadable>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    /// May be `null`, and never be absent: a body without it is no list, whatever it is, and not an empty one.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl List {
    /// All objects at a path.
    pub fn of(kind: &'static str, path: impl Into<String>) -> Self {
        Self { kind, path: path.into(), labels: String::new(), fields: String::new(), metadata_only: false }
    }

    /// Only those with these labels.
    pub fn labelled(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Only those with these fields.
    pub fn where_field(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    /// Only their metadata.
    pub fn metadata(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// What reading it is called in messages.
    pub fn attempted(&self) -> String {
        let selector = [&self.labels, &self.fields].into_iter().find(|selector| !selector.is_empty());
        selector.map_or_else(|| format!("list {}s", self.kind), |selector| format!("list {}s ({selector})", self.kind))
    }

    fn request(&self, next: Option<&str>) -> Result<Request<Vec<u8>>, CallError> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = Some(self.labels.clone()).filter(|selector| !selector.is_empty());
        params.field_selector = Some(self.fields.clone()).filter(|selector| !selector.is_empty());
        params.continue_token = next.map(Into::into);
        let resource = Resource::new(self.path.as_str());
        let request = if self.metadata_only { resource.list_metadata(&params) } else { resource.list(&params) };
        request.map_err(|error| CallError::Broken(error.to_string()))
    }

    /// Reads it whole. A continuation that has expired begins the list again: no page is stitched to another list's.
    ///
    /// # Errors
    /// [`Failure`] that names the list.
    pub async fn read<T>(&self, api: &Api, parse: impl Fn(&RawValue) -> Result<T, String>) -> Result<Listed<T>, Failure> {
        let mut starts = 1;
        loop {
            match self.pages(api, &parse).await {
                Err(CallError::Status { code: 410, .. }) if starts < STARTS => starts += 1,
                answer => return answer.map_err(|error| error.failure(&self.attempted())),
            }
        }
    }

    async fn pages<T>(&self, api: &Api, parse: &impl Fn(&RawValue) -> Result<T, String>) -> Result<Listed<T>, CallError> {
        let mut listed = Listed { items: Vec::new(), unreadable: Vec::new() };
        let mut body = api.read(&self.request(None)?).await?;
        loop {
            let page: Page<'_> = serde_json::from_slice(&body).map_err(|error| CallError::Unreadable(error.to_string()))?;
            let following = match page.metadata.next.as_deref().filter(|next| !next.is_empty()) {
                Some(next) => Some(self.ahead(api, next)?),
                None => None,
            };
            for (index, item) in page.items.unwrap_or_default().into_iter().enumerate() {
                if index % STRETCH == 0 {
                    tokio::task::yield_now().await;
                }
                match parse(item) {
                    Ok(item) => listed.items.push(item),
                    Err(why) => listed.unreadable.push(self.unreadable(item, why)),
                }
            }
            let Some(following) = following else { return Ok(listed) };
            body = following.await.map_err(|error| CallError::Broken(error.to_string()))??;
        }
    }

    /// Sends the request for the next page, so that it is on its way while this one is read.
    fn ahead(&self, api: &Api, next: &str) -> Result<tokio::task::JoinHandle<Result<Bytes, CallError>>, CallError> {
        let (request, api) = (self.request(Some(next))?, api.clone());
        Ok(tokio::spawn(async move { api.read(&request).await }))
    }

    fn unreadable(&self, item: &RawValue, why: String) -> Unreadable {
        let value: serde_json::Value = serde_json::from_str(item.get()).unwrap_or_default();
        let metadata = &value["metadata"];
        let name = metadata["name"].as_str().unwrap_or("(without a name)").to_owned();
        let pool =
            if self.kind == "NodePool" { Some(name.clone()) } else { metadata["labels"][keys::NODEPOOL_LABEL].as_str().map(Into::into) };
        Unreadable { kind: self.kind, name, pool, why }
    }
}

/// Reads one object; what is wrong comes with the field's path.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    // The path costs time, so it is only asked for where something is wrong.
    serde_json::from_str(text).or_else(|_| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| format!("{}: {}", error.path(), error.inner()))
    })
}
