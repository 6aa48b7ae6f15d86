//! Keys, tokens and kubeconfigs of one run. Nothing here outlives it.

use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use crate::error::{Attempt, Error};

/// Who speaks to the API server with full rights, each under a name of its own so that the audit log tells them apart.
pub(crate) const ADMINS: [&str; 5] = ["admin", "system:kube-controller-manager", "system:kube-scheduler", "karpenter", "kwok"];

/// A static token for each of `ADMINS`, in the API server's file format.
pub(crate) struct Tokens {
    secret: String,
}

impl Tokens {
    pub(crate) fn new() -> Result<Tokens, Error> {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| no_randomness())?;
        Ok(Tokens { secret: bytes.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// The token of a user.
    pub(crate) fn of(&self, user: &str) -> String {
        format!("{}-{}", user.replace(':', "-"), self.secret)
    }

    /// The content of `--token-auth-file`: token, user, uid, groups.
    pub(crate) fn file(&self) -> String {
        ADMINS.iter().map(|user| format!("{},{user},{user},system:masters\n", self.of(user))).collect()
    }
}

/// A new key that signs ServiceAccount tokens, and its public half, as PEM.
pub(crate) fn signing_key() -> Result<(String, String), Error> {
    let key = rcgen::KeyPair::generate().map_err(|_| no_randomness())?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes a kubeconfig that says only this: which server, by which certificate, with which token.
pub(crate) fn write_kubeconfig(path: &Path, port: u16, certificate: &Path, user: &str, token: &str) -> Result<PathBuf, Error> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": certificate,
        }}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
        "current-context": "local",
    });
    std::fs::write(path, format!("{config:#}\n")).attempt(|| format!("write {}", path.display()))?;
    Ok(path.to_path_buf())
}

fn no_randomness() -> Error {
    Error::Local { attempt: "make a key".into(), source: std::io::Error::other("no randomness to be had") }
}
