//! Keys, tokens and kubeconfigs of one run. Nothing here outlives it.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
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
    let key = KeyPair::generate().map_err(|_| no_randomness())?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// The API server's certificate with that of its authority below it, and its key, as PEM. The API server would make one by
/// itself that is valid from an hour ago on; this one holds for a laptop whose clock is days off, too.
pub(crate) fn server_certificate() -> Result<(String, String), Error> {
    let made = || -> Result<(String, String), rcgen::Error> {
        let (authority_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, "local-authority");
        let names = ["localhost", "127.0.0.1", "10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut server = CertificateParams::new(names.map(String::from))?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let root = authority.self_signed(&authority_key)?;
        let leaf = server.signed_by(&key, &Issuer::from_params(&authority, &authority_key))?;
        Ok((leaf.pem() + &root.pem(), key.serialize_pem()))
    };
    made().map_err(|error| Error::Local { attempt: "make a certificate".into(), source: std::io::Error::other(error) })
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
