//! The certificates of PayPal's webhooks: a root, an issuer below it, and a certificate with PayPal's name, all
//! RSA like the real ones.
//!
//! Everything is derived from the account's callback secret: it is identical after a restart, and a forgery under
//! another secret is signed by another key. Creating a key takes a tenth of a second, so it is created on first
//! use, once per process.
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use rand_core::{TryCryptoRng, TryRng, utils::fill_bytes_via_next_word};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PublicKeyData, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use rsa::{PrivateKey, pkcs1::EncodeRsaPublicKey, pkcs1v15::Pkcs1v15Sign};
use sha2::{Digest, Sha256};

use crate::config::Environment;

/// Size of every key, in bits.
const BITS: usize = 2048;

type Broken = Box<dyn std::error::Error + Send + Sync>;

/// An RSA key.
struct Key {
    private: PrivateKey,
    public: Vec<u8>,
}

impl Key {
    fn derive(seed: &[u8], label: &str) -> Result<Self, Broken> {
        let private = PrivateKey::new(&mut Stream::derive(seed, label), BITS)?;
        let public = private.to_public_key().to_pkcs1_der()?.as_bytes().to_vec();
        Ok(Self { private, public })
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rsa::Error> {
        let digest = Sha256::digest(message);
        self.private.sign(Pkcs1v15Sign::new::<Sha256>(), &digest)
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_RSA_SHA256
    }
}

impl SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Self::sign(self, message).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

/// Everything that signs for an account.
pub(crate) struct Authority {
    seed: Vec<u8>,
    /// Name in the certificate.
    subject: &'static str,
    root: Issuer<'static, Key>,
    /// The root's certificate, in DER.
    certificate: Vec<u8>,
    signer: OnceLock<Result<Signer, Broken>>,
}

/// The key of the webhooks.
pub(crate) struct Signer {
    key: Key,
    /// Name of its certificate in the address.
    pub(crate) name: String,
    /// Its certificate and the issuer's, in PEM.
    pub(crate) chain: String,
}

impl Signer {
    /// The signature of a message, in base64.
    pub(crate) fn sign(&self, message: &str) -> Result<String, Broken> {
        Ok(STANDARD.encode(self.key.sign(message.as_bytes())?))
    }
}

impl Authority {
    /// The authority of that secret.
    ///
    /// # Errors
    /// If a key or a certificate cannot be created.
    pub(crate) fn derive(secret: &str, environment: Environment) -> Result<Arc<Self>, Broken> {
        static KNOWN: Mutex<Option<HashMap<Vec<u8>, Arc<Authority>>>> = Mutex::new(None);
        let seed = Sha256::digest(format!("{}|{secret}", environment.as_str())).to_vec();
        // The lock is held while a key is created, so that concurrent callers wait for the same one.
        let mut known = KNOWN.lock();
        let known = known.get_or_insert_default();
        if let Some(authority) = known.get(&seed) {
            return Ok(Arc::clone(authority));
        }
        let subject = match environment {
            Environment::Live => "messageverificationcerts.paypal.com",
            Environment::Test => "messageverificationcerts.sandbox.paypal.com",
        };
        let authority = Arc::new(Self::new(seed.clone(), subject)?);
        known.insert(seed, Arc::clone(&authority));
        Ok(authority)
    }

    fn new(seed: Vec<u8>, subject: &'static str) -> Result<Self, Broken> {
        let key = Key::derive(&seed, "root")?;
        let params = params("Simulated Root", Some(1))?;
        let certificate = params.self_signed(&key)?.der().to_vec();
        Ok(Self {
            root: Issuer::new(params, key),
            seed,
            subject,
            certificate,
            signer: OnceLock::new(),
        })
    }

    /// The root's certificate: DER in base64.
    pub(crate) fn root(&self) -> String {
        STANDARD.encode(&self.certificate)
    }

    /// The signer of webhooks.
    ///
    /// # Errors
    /// If a key or a certificate cannot be created.
    pub(crate) fn signer(&self) -> Result<&Signer, &Broken> {
        self.signer.get_or_init(|| self.make_signer()).as_ref()
    }

    fn make_signer(&self) -> Result<Signer, Broken> {
        let above = Key::derive(&self.seed, "issuer")?;
        let above_params = params("Simulated Issuer", Some(0))?;
        let above_certificate = above_params.signed_by(&above, &self.root)?;
        let issuer = Issuer::new(above_params, above);
        let key = Key::derive(&self.seed, "webhooks")?;
        let certificate = params(self.subject, None)?.signed_by(&key, &issuer)?;
        let digest = hex::encode(Sha256::digest(certificate.der()));
        let part = |at: usize| digest.get(at..at + 8).unwrap_or_default();
        Ok(Signer {
            key,
            name: format!("CERT-{}-{}-{}", part(0), part(8), part(16)),
            chain: format!("{}{}", pem(certificate.der()), pem(above_certificate.der())),
        })
    }
}

/// Parameters of a certificate. `below` is the maximum number of authorities below it, or `None` for a signer.
fn params(name: &str, below: Option<u8>) -> Result<CertificateParams, rcgen::Error> {
    let names = below.map_or(vec![name.to_owned()], |_| Vec::new());
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    // The clock belongs to the caller and may be moved by years.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    if let Some(below) = below {
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    } else {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
    }
    Ok(params)
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    let body = lines.join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}

/// Bytes derived from a seed and a label, unpredictable without the seed.
struct Stream {
    start: Sha256,
    block: u64,
}

impl Stream {
    fn derive(seed: &[u8], label: &str) -> Self {
        Self {
            start: Sha256::new_with_prefix(seed).chain_update(label),
            block: 0,
        }
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let bytes = self.try_next_u64()?.to_le_bytes();
        let [a, b, c, d, ..] = bytes;
        Ok(u32::from_le_bytes([a, b, c, d]))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let digest = self.start.clone().chain_update(self.block.to_le_bytes());
        self.block += 1;
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(digest.finalize());
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}

impl TryCryptoRng for Stream {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_signs_follows_from_the_secret_and_the_world() {
        let of = |secret, environment| Authority::derive(secret, environment).unwrap();
        let one = of("one", Environment::Test);
        let again = Authority::new(one.seed.clone(), one.subject).unwrap();
        assert_eq!(one.root(), again.root());
        let (signer, same) = (one.signer().unwrap(), again.signer().unwrap());
        assert_eq!((&signer.name, &signer.chain), (&same.name, &same.chain));
        assert_eq!(signer.sign("m").unwrap(), same.sign("m").unwrap());
        for other in [of("two", Environment::Test), of("one", Environment::Live)] {
            assert_ne!(other.root(), one.root());
        }
    }
}
