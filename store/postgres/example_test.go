package postgres_test

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// TestEmbedding is the example of docs/embedding.md: two programs on one database.
func TestEmbedding(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), pgtest.Schema(t)
	start := func() (*holdfast.Runtime, func() error, error) {
		st, err := postgres.Open(ctx, url, postgres.Config{}) // such as postgres://user@host/database
		if err != nil {
			return nil, nil, err
		}
		rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": scripted.New(scripted.Reply{Text: "Yes."}, scripted.Reply{Text: "Gloves too."})}})
		if err != nil {
			return nil, nil, errors.Join(err, st.Close())
		}
		return rt, func() error { return errors.Join(rt.Close(), st.Close()) }, nil
	}
	one, stopOne, err := start()
	if err != nil {
		t.Fatal(err)
	}
	two, stopTwo, err := start()
	if err != nil {
		t.Fatal(err)
	}
	s, err := one.Create(ctx, session.Definition{Name: "weather", Model: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = one.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat?"}); err != nil {
		t.Fatal(err)
	}
	s, err = two.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "And gloves?"})
	if err != nil || s.Reply() != "Gloves too." || s.Version() != 3 {
		t.Errorf("%q, version %d, %v", s.Reply(), s.Version(), err)
	}
	if err := errors.Join(stopOne(), stopTwo()); err != nil {
		t.Error(err)
	}
}
