use super::*;

#[test]
fn the_filters_compile_and_no_call_is_both_allowed_and_forbidden() {
    for level in [Level::Bwrap, Level::Process, Level::None] {
        Filters::compile(level).unwrap();
    }
    let both: Vec<_> = calls::ALLOWED.iter().filter(|call| calls::FORBIDDEN.contains(call)).collect();
    assert!(both.is_empty(), "{both:?}");
}
