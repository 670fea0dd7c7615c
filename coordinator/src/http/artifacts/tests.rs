//! Claims about how files are sent.

use super::disposition;

#[test]
fn a_files_name_cannot_break_out_of_its_header() {
    let path = "a/x\"; filename=evil\r\nset-cookie: ü.txt";
    let said = disposition(path);
    assert_eq!(
        said,
        "attachment; filename=\"x___filename_evil__set-cookie___.txt\"; \
         filename*=UTF-8''x%22%3B%20filename%3Devil%0D%0Aset-cookie%3A%20%C3%BC.txt"
    );
}
