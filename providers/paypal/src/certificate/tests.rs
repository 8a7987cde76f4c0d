//! Tests with certificates and signatures from OpenSSL (`openssl req`, `x509`, `dgst -sha256 -sign`), valid from
//! 2026 to 2126. Keys are RSA 2048, except `short` with 1024 bits. `under` is certified by `signer`.
use super::*;
use kassette_plugin::encode::unbase64;

const NOW: u64 = 1_800_000_000_000;
const NAME: &str = "messageverificationcerts.paypal.com";
const MESSAGE: &[u8] = b"transmission|2027-01-15T08:00:00Z|1JE4291016473214C|3421780262";

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("fixtures/", $name))
    };
}

const ROOT: &str = fixture!("root.pem");
const ISSUER: &str = fixture!("issuer.pem");
const SIGNER: &str = fixture!("signer.pem");
const SIGNED: &str = fixture!("signer.sig");

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .unwrap()
        .to_vec()
}

/// Verifies the message against the test's root.
fn judged(file: &[&str], signature: &str) -> Verdict {
    judged_at(file, signature, NOW)
}

fn judged_at(file: &[&str], signature: &str, now: u64) -> Verdict {
    let (file, root) = (file.concat(), der(ROOT));
    let signature = unbase64(signature).unwrap();
    let roots = Roots::Simulator(&root);
    judge(file.as_bytes(), &[NAME], &roots, now, MESSAGE, &signature)
}

fn is_wrong(verdict: Verdict, why: &str) -> bool {
    matches!(verdict, Verdict::Wrong(said) if said.contains(why))
}

#[test]
fn a_signature_of_the_name_below_the_root_is_genuine() {
    assert_eq!(judged(&[SIGNER, ISSUER], SIGNED), Verdict::Genuine);
    // The root in the file makes no difference.
    assert_eq!(judged(&[SIGNER, ISSUER, ROOT], SIGNED), Verdict::Genuine);
}

#[test]
fn another_message_or_key_is_wrong() {
    let changed = SIGNED.replacen('A', "B", 1);
    let other = fixture!("other.sig");
    for signature in [changed.as_str(), other, "", "AAAA"] {
        let verdict = judged(&[SIGNER, ISSUER], signature);
        assert!(is_wrong(verdict, "signature"), "{verdict:?}");
    }
}

#[test]
fn a_certificate_of_another_name_is_wrong_however_it_is_certified() {
    let verdict = judged(&[fixture!("other.pem"), ISSUER], fixture!("other.sig"));
    assert!(is_wrong(verdict, "another name"), "{verdict:?}");
}

#[test]
fn a_certificate_out_of_its_time_is_wrong() {
    for now in [1_700_000_000_000, 5_000_000_000_000] {
        let verdict = judged_at(&[SIGNER, ISSUER], SIGNED, now);
        assert!(is_wrong(verdict, "not valid now"), "{verdict:?}");
    }
}

#[test]
fn a_certificate_whose_way_to_a_root_is_not_known_is_unlinked() {
    assert_eq!(judged(&[SIGNER], SIGNED), Verdict::Unlinked);
    // The test's root is not a public authority, so browsers do not trust it.
    let file = [SIGNER, ISSUER, ROOT].concat();
    let signature = unbase64(SIGNED).unwrap();
    let public = judge(
        file.as_bytes(),
        &[NAME],
        &Roots::Public,
        NOW,
        MESSAGE,
        &signature,
    );
    assert_eq!(public, Verdict::Unlinked);
    // A wrong signature is detected first.
    let verdict = judged(&[SIGNER], fixture!("other.sig"));
    assert!(is_wrong(verdict, "signature"), "{verdict:?}");
}

#[test]
fn a_certificate_of_no_authority_certifies_nothing() {
    let under = fixture!("under.pem");
    let verdict = judged(&[under, SIGNER, ISSUER], fixture!("under.sig"));
    assert_eq!(verdict, Verdict::Unlinked);
}

#[test]
fn a_short_key_is_not_believed() {
    let verdict = judged(&[fixture!("short.pem"), ISSUER], fixture!("short.sig"));
    assert!(is_wrong(verdict, "signature"), "{verdict:?}");
}

#[test]
fn a_file_without_a_certificate_is_unreadable() {
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let broken = "-----BEGIN CERTIFICATE-----\n????";
    for file in ["", "<html>", empty, broken] {
        assert_eq!(judged(&[file], SIGNED), Verdict::Unreadable, "{file}");
    }
}
