//! Claims about the settings of a bucket.

use super::{Bucket, is_bucket, is_loopback, prefix};

fn arguments(endpoint: Option<&str>) -> Bucket {
    Bucket {
        s3_bucket: None,
        s3_endpoint: endpoint.map(str::to_owned),
        s3_region: "eu-west-3".into(),
        s3_prefix: String::new(),
    }
}

#[test]
fn without_a_bucket_there_are_no_settings() {
    assert!(arguments(None).settings().unwrap().is_none());
    assert!(arguments(Some("")).settings().unwrap().is_none());
    let error = arguments(Some("http://127.0.0.1:9")).settings().unwrap_err().to_string();
    assert!(error.contains("CW_S3_BUCKET"), "{error}");
}

#[test]
fn an_endpoint_is_an_address_and_nothing_more() {
    let endpoint = |text| arguments(text).endpoint();
    assert_eq!(endpoint(None).unwrap(), "https://s3.eu-west-3.amazonaws.com");
    assert_eq!(endpoint(Some("http://127.0.0.1:9000/")).unwrap(), "http://127.0.0.1:9000");
    for bad in ["127.0.0.1:9000", "http://", "https://key:secret@host", "http://host/bucket", "ftp://host"] {
        let error = endpoint(Some(bad)).unwrap_err().to_string();
        assert!(error.contains("CW_S3_ENDPOINT") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_prefix_has_single_slashes_inside_and_none_around() {
    assert_eq!(prefix("/a/b/").unwrap(), "a/b");
    assert_eq!(prefix("").unwrap(), "");
    for bad in ["a//b", "a/../b", "./a", "a\nb", &"x".repeat(257)] {
        assert!(prefix(bad).is_err(), "{bad}");
    }
}

#[test]
fn loopback_is_known_by_its_names() {
    assert!(["localhost:1", "127.0.0.1", "[::1]:9000", "127.8.9.1:80"].iter().all(|host| is_loopback(host)));
    assert!(!["10.0.0.1:9000", "minio", "localhost.example.org"].iter().any(|host| is_loopback(host)));
    assert!(is_bucket("my-bucket") && !is_bucket("a/b") && !is_bucket("ab"));
}
