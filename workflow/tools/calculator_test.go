package tools_test

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// The results are what Python prints.
func TestCalculator_countsAsPython(t *testing.T) {
	t.Parallel()
	b := newBox(t, tools.Config{})
	for expression, want := range map[string]string{
		"1 + 2 * 3":                       "7",
		"(1 + 2) * 3":                     "9",
		"7 / 2":                           "3.5",
		"6 / 2":                           "3",
		"7 // 2":                          "3",
		"-7 // 2":                         "-4",
		"-7 % 3":                          "2",
		"7 % -3":                          "-2",
		"7.5 % -2":                        "-0.5",
		"2 ** 3 ** 2":                     "512",
		"-2 ** 2":                         "-4",
		"(-2) ** 2":                       "4",
		"2 ** -1":                         "0.5",
		"2 ** 0.5":                        "1.4142135623730951",
		"--2 - -+3":                       "5",
		"0.1 + 0.2":                       "0.30000000000000004",
		"1_000 * .5":                      "500",
		"1e3 + 3.":                        "1003",
		"1e22":                            "10000000000000000000000",
		"1e-7":                            "1e-07",
		"2 ** 100":                        "1267650600228229401496703205376",
		"10 ** 20 / 10":                   "10000000000000000000",
		"-0.0":                            "0",
		"0 ** 0":                          "1",
		"1" + strings.Repeat(" + 1", 200): "201",
	} {
		works(t, b, "calculator", map[string]any{"expression": "  " + expression + "\n"}, expression+" = "+want)
	}
}

func TestCalculator_refuses(t *testing.T) {
	t.Parallel()
	b := newBox(t, tools.Config{})
	for expression, want := range map[string]string{
		"":                             "ends too early",
		"1 +":                          "ends too early",
		"(1":                           "ends too early",
		"1)":                           "did not expect ')'",
		"1 2":                          "did not expect '2'",
		"2 * * 3":                      "did not expect '*'",
		"2 ^ 3":                        "did not expect '^'",
		"1 / 0":                        "division by zero",
		"1 % 0.0":                      "division by zero",
		"1.2.3":                        "not a number",
		"1e999":                        "too large",
		"1e308 * 10":                   "too large",
		"1e308 * 10 - 1e308 * 10":      "too large",
		"9 ** 9 ** 9":                  "4300 digits",
		"9 ** 99999999999999999999":    "4300 digits",
		"(-8) ** 0.5":                  "no real power",
		"__import__('os')":             "did not expect '_'",
		"abs(1)":                       "did not expect 'a'",
		"1 }} {{ 2":                    "did not expect '}'",
		"1 %} 2":                       "did not expect '}'",
		strings.Repeat("(", 300) + "1": "deep",
		strings.Repeat("-", 300) + "1": "deep",
		strings.Repeat("1+", 600):      "at most 1000",
		"\x00":                         "did not expect",
	} {
		fails(t, b, "calculator", map[string]any{"expression": expression}, want)
	}
}

func FuzzCalculator(f *testing.F) {
	for _, seed := range []string{"1+2", "-2**2", "2**-1//3", "1e308*10", "9**9**9", "((1)", "7.5%-2", "1_0.e2", "{{ 1 }}", "0x10"} {
		f.Add(seed)
	}
	b, err := tools.New(tools.Config{Spec: parse(f, ""), WorkDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	calculator := b.For([]string{"calculator"}, true)[0]
	f.Fuzz(func(t *testing.T, expression string) {
		raw, err := json.Marshal(map[string]string{"expression": expression})
		if err != nil {
			t.Skip()
		}
		got, err := calculator.Call(t.Context(), tool.Call{Arguments: raw})
		if err != nil {
			t.Fatalf("%q: %v", expression, err)
		}
		if got.IsError {
			return
		}
		i := strings.LastIndex(got.Content, " = ")
		value := got.Content[i+3:]
		if _, whole := new(big.Int).SetString(value, 10); whole {
			return
		}
		if f, err := strconv.ParseFloat(value, 64); err != nil || f == float64(int64(f)) {
			t.Errorf("%q: %q", expression, got.Content)
		}
	})
}
