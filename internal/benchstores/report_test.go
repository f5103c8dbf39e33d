package main

import "testing"

func TestTarget_isMetByWhatIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		target *Target
		value  float64
		want   string
	}{
		"below a most":                {atMost(1.5), 1.2, "ok"},
		"on a most":                   {atMost(1.5), 1.5, "ok"},
		"shown as the most":           {atMost(1.5), 1.504, "ok"},
		"above a most":                {atMost(1.5), 1.506, "missed"},
		"above a least":               {atLeast(0.6), 0.8, "ok"},
		"below a least":               {atLeast(0.6), 0.59, "missed"},
		"exactly":                     {exactly(20), 20, "ok"},
		"more than exactly":           {exactly(0), 1, "missed"},
		"less than exactly":           {exactly(20), 19, "missed"},
		"without a target no verdict": {nil, 3, ""},
	} {
		if got := (Result{Measured: c.value, Target: c.target}).Verdict(); got != c.want {
			t.Errorf("%s: %v against %v is %q, want %q", name, c.value, c.target, got, c.want)
		}
	}
}

func TestResults_areShownWithTwoDecimals(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Result{Measured: 1}.format(), "1.00"},
		{Result{Measured: 20, Count: true}.format(), "20"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
