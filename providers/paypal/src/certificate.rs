//! Verification of certificates and of signatures made with their keys.
//!
//! rustls-webpki builds the chains; it contains no cryptography. RSA comes from the crate `rsa`, which is pure
//! Rust, so the module needs no C compiler. Only public keys are used here.
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use rsa::pkcs1::DecodeRsaPublicKey;
use rsa::pkcs1v15::Pkcs1v15Sign;
use rsa::pkcs8::AssociatedOid;
use rsa::traits::PublicKeyParts;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName,
    SignatureVerificationAlgorithm, TrustAnchor, UnixTime, alg_id,
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// Maximum number of certificates in a chain; real chains have two or three.
const CHAIN: usize = 6;
/// Minimum key size in bytes, which is also the minimum of public certificate authorities.
const KEY: usize = 256;

const SHA256: Rsa<Sha256> = Rsa::new(alg_id::RSA_PKCS1_SHA256);
const SHA384: Rsa<Sha384> = Rsa::new(alg_id::RSA_PKCS1_SHA384);
const SHA512: Rsa<Sha512> = Rsa::new(alg_id::RSA_PKCS1_SHA512);

/// RSA with PKCS #1 v1.5 padding over a digest.
struct Rsa<D> {
    id: AlgorithmIdentifier,
    digest: PhantomData<fn() -> D>,
}

impl<D> Rsa<D> {
    const fn new(id: AlgorithmIdentifier) -> Self {
        Self {
            id,
            digest: PhantomData,
        }
    }
}

impl<D> fmt::Debug for Rsa<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rsa")
    }
}

impl<D: Digest + AssociatedOid> SignatureVerificationAlgorithm for Rsa<D> {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.id
    }

    fn verify_signature(
        &self,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = rsa::PublicKey::from_pkcs1_der(key).map_err(|_| InvalidSignature)?;
        if key.size() < KEY {
            return Err(InvalidSignature);
        }
        key.verify(Pkcs1v15Sign::new::<D>(), &D::digest(message), signature)
            .map_err(|_| InvalidSignature)
    }
}

/// Trusted root certificates.
pub(crate) enum Roots<'a> {
    /// The roots that Mozilla's browsers trust.
    Public,
    /// The root of a simulator, in DER.
    Simulator(&'a [u8]),
}

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Signed by the holder of one of the names, with a chain to a trusted root.
    Genuine,
    /// Signed by the key in the certificate, but there is no chain to a root: an intermediate certificate is
    /// missing from the file, or is not signed with RSA.
    Unlinked,
    /// The file contains no readable certificate.
    Unreadable,
    /// Not valid, with the reason.
    Wrong(&'static str),
}

/// Verifies the signature of a message against a PEM file with the signer's certificate and those above it. `now`
/// is in milliseconds since 1970.
pub(crate) fn judge(
    file: &[u8],
    names: &[&'static str],
    roots: &Roots<'_>,
    now: u64,
    message: &[u8],
    signature: &[u8],
) -> Verdict {
    let chain = CertificateDer::pem_slice_iter(file).take(CHAIN);
    let Ok(chain) = chain.collect::<Result<Vec<_>, _>>() else {
        return Verdict::Unreadable;
    };
    let mut readable = false;
    for (at, certificate) in chain.iter().enumerate() {
        let Ok(signer) = EndEntityCert::try_from(certificate) else {
            continue;
        };
        readable = true;
        if names.iter().any(|name| is_named(&signer, name)) {
            let above = chain.get(at + 1..).unwrap_or_default();
            return judge_signer(&signer, above, roots, now, message, signature);
        }
    }
    if readable {
        Verdict::Wrong("the certificate is for another name")
    } else {
        Verdict::Unreadable
    }
}

fn is_named(certificate: &EndEntityCert<'_>, name: &'static str) -> bool {
    let name = ServerName::try_from(name);
    name.is_ok_and(|name| certificate.verify_is_valid_for_subject_name(&name).is_ok())
}

fn judge_signer(
    signer: &EndEntityCert<'_>,
    above: &[CertificateDer<'_>],
    roots: &Roots<'_>,
    now: u64,
    message: &[u8],
    signature: &[u8],
) -> Verdict {
    // Verify the message first: anyone can send PayPal's public certificate, and this check needs one verification
    // instead of three.
    if signer
        .verify_signature(&SHA256, message, signature)
        .is_err()
    {
        return Verdict::Wrong("the signature does not verify");
    }
    let simulated: [TrustAnchor<'_>; 1];
    let root;
    let anchors = match roots {
        Roots::Public => webpki_roots::TLS_SERVER_ROOTS,
        Roots::Simulator(der) => {
            root = CertificateDer::from(*der);
            let Ok(anchor) = anchor_from_trusted_cert(&root) else {
                return Verdict::Unreadable;
            };
            simulated = [anchor];
            &simulated
        }
    };
    let proved = signer.verify_for_usage(
        &[&SHA256, &SHA384, &SHA512],
        anchors,
        above,
        UnixTime::since_unix_epoch(Duration::from_millis(now)),
        KeyUsage::server_auth(),
        None,
        None,
    );
    match proved {
        Ok(_) => Verdict::Genuine,
        Err(
            webpki::Error::CertExpired { .. }
            | webpki::Error::CertNotValidYet { .. }
            | webpki::Error::InvalidCertValidity,
        ) => Verdict::Wrong("the certificate is not valid now"),
        Err(_) => Verdict::Unlinked,
    }
}

#[cfg(test)]
mod tests;
