package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/tool"
)

func TestFailures_showNoKey(t *testing.T) {
	f := newFailures()
	f.setSecrets(map[string]string{"LAB_KEY": "sk-0123456789", "EMPTY": ""})
	broken := tool.Fake("broken", "", "")
	told := f.watchTools([]tool.Tool{failing{broken}})[0]
	if _, err := told.Call(context.Background(), tool.Call{ID: "1"}); err == nil {
		t.Fatal("it did not fail")
	}
	if why := f.reasonOf("1"); strings.Contains(why, "0123456789") || !strings.Contains(why, "[secret:LAB_KEY]") {
		t.Errorf("told: %s", why)
	}
}

type failing struct{ tool.Tool }

func (failing) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errorText("refused for sk-0123456789")
}

type errorText string

func (e errorText) Error() string { return string(e) }
