package display_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/session"
)

func TestChangeText_saysWhatWasRecalledAndWhy(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]session.InferenceAnswered{
		"m · recalled m-7 (0.72, words ferry nine, meaning 0.61), user/ann/tea (0.60, meaning 0.60)": {
			Recalled: []string{"m-7", "user/ann/tea"},
			Reasons:  []session.RecallReason{{Score: 0.72, Words: []string{"ferry", "nine"}, Meaning: 0.61}, {Score: 0.6, Meaning: 0.6}},
		},
		"m · recalled m-7": {Recalled: []string{"m-7"}}, // as logs of earlier programs have it
	} {
		if c.Model = "m"; display.ChangeText(c) != want {
			t.Errorf("%q, want %q", display.ChangeText(c), want)
		}
	}
}
