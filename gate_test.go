package holdfast_test

import (
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
)

func TestPermissions_theRuntimesModeHoldsAfterAnAnswer(t *testing.T) {
	var runs sync.Map
	permissions := shellPermissions(t)
	h := open(t, func(c *holdfast.Config) {
		onSQLite(t, c)
		script(c, callsShell("c1", "make"), scripted.Reply{Text: "one"}, callsShell("c2", "make"), scripted.Reply{Text: "two"})
		c.Tools, c.Permissions = shell(t, &runs), permissions
	})
	s := h.create()
	p := h.do(s.ID(), holdfast.SendMessage{Text: "build"}).PendingCalls()[0]
	if err := h.Respond(t.Context(), s.ID(), session.Response{PendingID: p.ID, Action: session.RespondDeny}); err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.ContinueExecution{})
	permissions.Mode = session.PermissionBypass
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "again"}); got.Reply() != "two" || ran(&runs, "make") != 1 {
		t.Errorf("reply %q, ran %d times: the session set no mode", got.Reply(), ran(&runs, "make"))
	}
}
