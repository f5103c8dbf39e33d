package benchmark

import (
	"bytes"
	"compress/flate"
	"io"
	"testing"
	"time"
)

var marks = SectionOf("make something")

func TestSplice_replacesOnlyWhatLiesBetweenTheMarks(t *testing.T) {
	page := "# Title\n\nbefore\n\n" + marks.begin + "\nold\n" + marks.end + "\n\nafter\n"
	want := "# Title\n\nbefore\n\n" + marks.begin + "\n\nnew\n\n" + marks.end + "\n\nafter\n"
	got, err := marks.Replace(page, "new\n")
	if err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if again, err := marks.Replace(got, "new\n"); err != nil || again != got {
		t.Errorf("the second time it is %q, %v", again, err)
	}
}

func TestSplice_refusesPagesWithoutClearMarks(t *testing.T) {
	for name, page := range map[string]string{
		"none":          "text",
		"only a begin":  marks.begin,
		"only an end":   marks.end,
		"wrong order":   marks.end + marks.begin,
		"two sections":  marks.begin + marks.end + marks.begin + marks.end,
		"a begin after": marks.begin + marks.end + marks.begin,
		"an end before": marks.end + marks.begin + marks.end,
	} {
		if got, err := marks.Replace(page, "new"); err == nil {
			t.Errorf("%s: made %q", name, got)
		}
	}
}

func TestNumbers_sayNoMoreThanIsKnown(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Number(1.2345), "1.23"},
		{Number(2), "2"},
		{Number(123456.7), "123,457"},
		{GroupDigits(1_000_001), "1,000,001"},
		{GroupDigits(-4_200), "-4,200"},
		{AboutTime(84_321 * time.Nanosecond), "84 µs"},
		{AboutTime(214_321 * time.Nanosecond), "0.21 ms"},
		{AboutTime(1_672 * time.Millisecond), "1,700 ms"},
		{AboutTime(0), "0 µs"},
		{AboutRate(18_432), "18,000/s"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestProse_isTheSameInEveryRunAndNotEasyToCompress(t *testing.T) {
	text := NewTextSource().Text(100_000)
	if text != NewTextSource().Text(100_000) {
		t.Error("two runs have different texts")
	}
	if len(text) != 100_000 {
		t.Errorf("%d bytes, not 100,000", len(text))
	}
	var small bytes.Buffer
	w, err := flate.NewWriter(&small, flate.BestCompression)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	// English prose of this length comes down to about two fifths.
	if share := float64(small.Len()) / float64(len(text)); share < 0.3 || share > 0.55 {
		t.Errorf("compressed to %.2f of its length", share)
	}
}
