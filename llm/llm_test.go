package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

type silent struct{}

func (silent) Infer(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return llm.Response{}, nil
}

func TestMap_missListsWhatIsThere(t *testing.T) {
	m := llm.Map{"b": silent{}, "a": silent{}}
	if got, err := m.Model("a"); err != nil || got == nil {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := m.Model("c")
	if !errors.Is(err, session.ErrNotFound) || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("got %v", err)
	}
}

func TestTransientError_keepsItsCause(t *testing.T) {
	boom := errors.New("boom")
	if err := error(&llm.TransientError{Err: boom}); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}
