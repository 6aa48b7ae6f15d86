//! As little as can be done to fetch what a pass has to know: the bytes of both lists, page by page over one connection,
//! of which nothing is kept but where the next page begins.

use std::path::Path;

use http_body_util::BodyExt;
use kube::{Client, api::ListParams, core::Request};
use noderotation::kube::connect::{Target, connect};

/// A custom resource's list ends in its metadata: so much of a page is looked at.
const TAIL: usize = 4096;

/// Lists NodePools and NodeClaims.
#[tokio::main(flavor = "current_thread")]
pub async fn list(kubeconfig: &Path, page: u32) {
    // The same kind of connection as a pass has.
    let client = connect(&Target { kubeconfig: Some(kubeconfig.into()), ..Target::default() }).await.unwrap();
    for plural in ["nodepools", "nodeclaims"] {
        let mut next = None;
        loop {
            let mut params = ListParams::default().limit(page);
            params.continue_token = next;
            let request = Request::new(format!("/apis/karpenter.sh/v1/{plural}")).list(&params).unwrap();
            next = fetch(&client, request).await;
            if next.is_none() {
                break;
            }
        }
    }
}

/// Fetches a page; where the next one begins.
async fn fetch(client: &Client, request: http::Request<Vec<u8>>) -> Option<String> {
    let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    let mut body = response.into_body();
    let mut tail = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.unwrap().into_data() else { continue };
        tail.extend_from_slice(&data[data.len().saturating_sub(TAIL)..]);
        tail.drain(..tail.len().saturating_sub(TAIL));
    }
    let tail = String::from_utf8_lossy(&tail).into_owned();
    let (_, after) = tail.rsplit_once(r#""continue":""#)?;
    let (token, _) = after.split_once('"')?;
    Some(token.to_owned()).filter(|token| !token.is_empty())
}
