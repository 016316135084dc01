//! `roofline` and `tiles`.

use std::fs;

use super::{cells, command, end, tessera};

const LINES: [char; 2] = ['│', '┆'];

#[test]
fn roofline_does_the_lectures_sum_without_its_slips() {
    let text = tessera(&["roofline"]).fine();
    let rows = cells(&text, &LINES);
    let naive = ["2 a multiply-add", "8.590 GB", "0.25", "1382.4", "21.6", "1/16.0", "bandwidth"];
    assert_eq!(rows[1][..7], naive);
    assert_eq!(rows[2][..2], ["tiles of 16 x 16", "536.871 MB"]);
    assert_eq!(rows[2][4..6], ["345.6", "1/1.0"]);
    for words in [
        "= 345.6 GFLOP/s; memory 86.4 GB/s",
        "256 threads a block, 64 x 64 = 4096 blocks",
        "512 loads feed 8192 operations",
        "lecture notes: 15.0 GFLOP/s, 1/23.0 of the peak",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = tessera(&["roofline", "--gpu", "H200", "-n", "10240", "--tile", "32"]).fine();
    assert!(text.contains("320 x 320 = 102400 blocks") && !text.contains("measured,"), "{text}");
    let huge = tessera(&["roofline", "-n", "18446744073709551615", "--tile", "65536"]).fine();
    assert!(huge.contains("e58 bytes"), "{huge}");
}

#[test]
fn roofline_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.svg");
    let file = path.to_str().expect("UTF-8");
    tessera(&["roofline", "--gpu", "gtx460m", "-n", "10240", "--tile", "32", "--svg", file]).fine();
    let svg = fs::read_to_string(&path).expect("read");
    for words in
        ["<svg", "tiles of 32 x 32, bound: 480.0", "naive in Hello World", "measured: 37.7"]
    {
        assert!(svg.contains(words), "{words}");
    }
    tessera(&["roofline", "--svg", "/no/where.svg"]).refused(2, &["/no/where.svg"]);
}

#[test]
fn tiles_show_what_is_legal_and_why_not() {
    let text = tessera(&["tiles", "--gpu", "g80", "--tile", "16,22,23,32"]).fine();
    let rows = cells(&text, &LINES);
    assert_eq!(rows[1][..6], ["16 x 16", "256", "2048", "3", "threads", "100 %"]);
    assert_eq!(rows[2][3], "1");
    assert_eq!(rows[3][3..5], ["none", "529 threads, a block has 512"]);
    assert!(text.contains("The widest tile is 22 x 22."), "{text}");
    let text = tessera(&["tiles"]).fine();
    let rows = cells(&text, &LINES);
    assert_eq!(rows.len(), 1 + lab::card::cards().len());
    for row in &rows[1..] {
        let (threads, widest) = (&row[3], &row[5]);
        let wanted = if threads == "512" { "22" } else { "32" };
        assert_eq!((widest.as_str(), row[12].as_str()), (wanted, "none"), "{row:?}");
    }
}

#[test]
fn what_is_no_card_or_no_tile_is_one_line() {
    for command in ["roofline", "tiles"] {
        tessera(&[command, "--gpu", "voodoo"]).refused(2, &["`voodoo`", "g80", "this"]);
        tessera(&[command, "--tile", "0"]).refused(2, &["'0'", "from 1 to 65536"]);
        tessera(&[command, "--tile", "99999999999"]).refused(2, &["from 1 to 65536"]);
        tessera(&[command, "--gpu", "this"]).refused(3, &["no CUDA device"]);
    }
    tessera(&["roofline", "-n", "0"]).refused(2, &["sizes start at 1"]);
}

/// With the machine's own driver: the GPU at hand is a card, or the reason is said.
#[test]
fn the_gpu_at_hand_is_a_card() {
    let own = |args: &[&str]| end(command(args).env_remove("TESSERA_LIBCUDA"));
    let roofline = own(&["roofline", "--gpu", "this", "-n", "256"]);
    let tiles = own(&["tiles", "--gpu", "this"]);
    if roofline.code == Some(3) {
        tiles.refused(3, &["no CUDA device"]);
        return;
    }
    let text = roofline.fine();
    for kernel in ["measured, naive: ", "measured, tiled16: "] {
        assert!(text.contains(kernel), "{text}");
    }
    assert!(tiles.fine().contains("The widest tile is 32 x 32."));
}
