package basic_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have no time zones

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/basic"
)

func call(t *testing.T, name string, in map[string]any) (string, error) {
	t.Helper()
	tools, err := basic.Tools(basic.Config{Now: func() time.Time { return time.Date(2026, 7, 1, 12, 30, 5, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	used, _ := set.Get(name)
	if used.Spec().Nature != tool.ReadOnly {
		t.Errorf("%s is %q", name, used.Spec().Nature)
	}
	got, err := used.Call(t.Context(), tool.Call{Arguments: raw})
	return got.Content, err
}

func TestCurrentTime_zonesAndFormats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   map[string]any
		want string
	}{
		"plain":   {map[string]any{}, "2026-07-01T12:30:05Z"},
		"summer":  {map[string]any{"timezone": "Europe/Oslo"}, "2026-07-01T14:30:05+02:00"},
		"half":    {map[string]any{"timezone": "Asia/Kolkata"}, "2026-07-01T18:00:05+05:30"},
		"unix":    {map[string]any{"format": "unix", "timezone": "utc"}, "1782909005"},
		"human":   {map[string]any{"format": "human"}, "Wednesday, July 01, 2026 at 12:30:05 PM UTC"},
		"evening": {map[string]any{"format": "human", "timezone": "Asia/Tokyo"}, "Wednesday, July 01, 2026 at 09:30:05 PM JST"},
	} {
		if got, err := call(t, "current_time", c.in); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
	for _, in := range []map[string]any{{"timezone": "Mars/Olympus"}, {"timezone": "../../etc/passwd"}, {"format": "roman"}} {
		if got, err := call(t, "current_time", in); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%v: %q, %v", in, got, err)
		}
	}
}

func TestCalculator_isExact(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"1 + 2 * 3":            "= 7",
		"(1 + 2) * 3":          "= 9",
		"0.1 + 0.2":            "= 0.3",
		"1/4":                  "= 0.25",
		"1/3":                  "≈ 0.333333333333333333333333333333 (exactly 1/3)",
		"1/3*3":                "= 1",
		"2/3":                  "≈ 0.666666666666666666666666666667 (exactly 2/3)",
		"2^10":                 "= 1024",
		"2**3**2":              "= 512",
		"-2^2":                 "= -4",
		"(-2)^2":               "= 4",
		"2^-2":                 "= 0.25",
		"--2":                  "= 2",
		"7 // 2":               "= 3",
		"-7 // 2":              "= -4",
		"-7 % 3":               "= 2",
		"7 % -3":               "= -2",
		"7.5 % 2":              "= 1.5",
		"2^100":                "= 1267650600228229401496703205376",
		"1e3 + 1E-1":           "= 1000.1",
		"1_000_000":            "= 1000000",
		".5 + 5.":              "= 5.5",
		"010":                  "= 10",
		"sqrt(16/9)*3":         "= 4",
		"sqrt(2)":              "≈ 1.41421356237309504880168872420969807856967187537694",
		"sqrt(2)*sqrt(2) - 2":  "≈ -2.28343919038393186956257119543e-50",
		"round(2.5)":           "= 3",
		"round(-2.5)":          "= -3",
		"round(3.14159, 2)":    "= 3.14",
		"round(1250, -2)":      "= 1300",
		"floor(-1.5)":          "= -2",
		"ceil(-1.5)":           "= -1",
		"abs(-3) + max(1,5,2)": "= 8",
		"min(1/2, 1/3) * 6":    "= 2",
		"(-1)^1000000000001":   "= -1",
		"(-1)^10000000000000":  "= 1",
		"0^99999999999":        "= 0",
		"1^-99999999999":       "= 1",
		"0^0":                  "= 1",
		"6 × 7 ÷ 2 − 1":        "= 20",
		"10^-100 * 3":          "≈ 3e-100",
	} {
		if got, err := call(t, "calculator", map[string]any{"expression": expression}); err != nil || got != expression+" "+want {
			t.Errorf("%s: got %q, %v, want %q", expression, got, err, want)
		}
	}
}

func TestCalculator_badExpressionsAreNamed(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"":                          "ends too early",
		"1 +":                       "ends too early",
		"(1":                        "ends too early",
		"1)":                        `did not expect ')'`,
		"1 2":                       `did not expect '2'`,
		"2 * * 3":                   `did not expect '*'`,
		"1 / 0":                     "divides by zero",
		"1 % 0":                     "divides by zero",
		"0 ^ -1":                    "divides by zero",
		"2 ^ 0.5":                   "not whole",
		"sqrt(-1)":                  "negative",
		"1.2.3":                     "not a number",
		"2e":                        "not a number",
		"os.Exit(1)":                `does not know "os"`,
		"abs(1, 2)":                 "abs 2 arguments",
		"abs":                       "ends too early",
		"9^9^9":                     "bits",
		"9^99999999999999999999":    "bits",
		"1e999999999":               "bits",
		"1e-999999999":              "bits",
		"round(1, 99999)":           "1000 digits",
		strings.Repeat("(", 500):    "deep",
		strings.Repeat("-", 500):    "deep",
		strings.Repeat("2^", 500):   "deep",
		strings.Repeat("1+", 1500):  "at most 1000",
		"2^16000 * 2^16000":         "bits",
		"\x00":                      "did not expect",
		"1 + \xff":                  "did not expect",
		"1;2":                       "did not expect ';'",
		"max()":                     `did not expect ')'`,
		"sqrt(sqrt(2)) + 1/3 @ 1 2": `did not expect '@'`,
	} {
		if got, err := call(t, "calculator", map[string]any{"expression": expression}); !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %q, %v, want %q", expression, got, err, want)
		}
	}
}

func FuzzCalculator(f *testing.F) {
	for _, seed := range []string{"1+2", "sqrt(2)^3", "round(1/3, 5) % 2", "9^9^9", "-(-1)**2//3", "1e-5", "max(1,2"} {
		f.Add(seed)
	}
	tools, err := basic.Tools(basic.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		raw, err := json.Marshal(map[string]string{"expression": expression})
		if err != nil {
			t.Skip()
		}
		got, err := tools[1].Call(t.Context(), tool.Call{Arguments: raw})
		if err != nil && !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", expression, err)
		}
		if err == nil && !strings.Contains(got.Content, "= ") && !strings.Contains(got.Content, "≈ ") {
			t.Errorf("%q: %q", expression, got.Content)
		}
	})
}
