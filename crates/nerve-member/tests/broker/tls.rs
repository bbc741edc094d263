//! A broker that requires TLS and a certificate of each member.

use std::path::Path;

use nerve_member::{Creation, MemberState};
use nerve_types::ErrorKind;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::harness::{CREATE, Machine, SHORT, broker, write};

/// Writes `NAME.pem` and `NAME.key` of the broker and of a member, and `ca.pem` of the authority that signed both.
fn write_certificates(folder: &Path) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    write(&folder.join("ca.pem"), &authority.pem(), 0o600);
    for name in ["broker", "member"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        let certificate = params.signed_by(&key, &authority, &authority_key).unwrap();
        write(&folder.join(format!("{name}.pem")), &certificate.pem(), 0o600);
        write(&folder.join(format!("{name}.key")), &key.serialize_pem(), 0o600);
    }
}

#[tokio::test]
async fn broker_and_member_prove_their_identity_by_certificates() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let path = |name: &str| folder.path().join(name);
    let (certificate, key, ca) = (path("broker.pem"), path("broker.key"), path("ca.pem"));
    let settings =
        format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}, ca_file: {ca:?}, verify: true }}");
    let test = "broker_and_member_prove_their_identity_by_certificates";
    let Some(broker) = broker(test, &settings) else { return };
    let mut machine = Machine::new("a", &broker, SHORT);
    machine.config.brokers = vec![broker.url().replace("nats://", "tls://")];
    let refusal = async |machine: &Machine| {
        let error = machine.membership.join(&machine.config, CREATE).await.unwrap_err();
        assert!(!machine.membership.is_configured(), "{error}");
        error.kind()
    };
    // The authority is unknown to this machine.
    assert_eq!(refusal(&machine).await, ErrorKind::InvalidRequest);
    machine.config.ca = Some(ca);
    // The broker gets no certificate.
    refusal(&machine).await;
    (machine.config.certificate, machine.config.key) = (Some(path("member.pem")), Some(path("member.key")));
    machine.membership.join(&machine.config, CREATE).await.unwrap();
    machine.start();
    machine.wait_for(|status| status.state == MemberState::Member).await;
    machine.stop().await;
    machine.membership.leave().await.unwrap();
    machine.config.ca = Some(path("missing.pem"));
    let error = machine.membership.join(&machine.config, Creation::Refuse).await.unwrap_err();
    assert!(!error.hint().is_empty() && !machine.membership.is_configured(), "{error}");
}
