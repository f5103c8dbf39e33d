package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

func TestEvents_sayWhatTheyAreAbout(t *testing.T) {
	h := open(t, nil)
	var heard []holdfast.About
	h.Wiretap(func(e holdfast.Event) { heard = append(heard, e.Subject()) })
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	if len(heard) == 0 {
		t.Fatal("no events")
	}
	for _, about := range heard {
		if about.SessionID != s.ID() || about.Tenant != session.DefaultTenant || about.Time.IsZero() {
			t.Errorf("an event about %+v", about)
		}
	}
}

func TestWiretap_hearsItsTenantAlone(t *testing.T) {
	h := open(t, nil)
	other := h.For(holdfast.Identity{Tenant: "other"})
	heard := map[string]int{}
	other.Wiretap(func(e holdfast.Event) { heard["tap "+e.Subject().Tenant]++ })
	holdfast.On(other, func(e holdfast.SessionSaved) { heard["on "+e.Subject().Tenant]++ }, 0)
	h.create()
	if len(heard) != 0 {
		t.Errorf("the view of another tenant heard %v", heard)
	}
	if _, err := other.Create(t.Context(), session.Definition{Name: "tester", Model: "demo"}); err != nil {
		t.Fatal(err)
	}
	if heard["tap other"] == 0 || heard["on other"] == 0 || len(heard) != 2 {
		t.Errorf("a view heard %v of its own tenant", heard)
	}
	all := map[string]int{}
	stop := other.WiretapAll(func(e holdfast.Event) { all[e.Subject().Tenant]++ })
	h.create()
	if _, err := other.Create(t.Context(), session.Definition{Name: "tester", Model: "demo"}); err != nil {
		t.Fatal(err)
	}
	if all["default"] == 0 || all["other"] == 0 {
		t.Errorf("a listener of all tenants heard %v", all)
	}
	stop()
	stop()
	before := all["default"]
	h.create()
	if all["default"] != before {
		t.Error("it listens after its end")
	}
}

// On takes the types of EventType only, so that nobody listens for what never
// comes. An event that is missing there could not be listened to.
func TestEventType_hasEveryEvent(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			if spec.Name.Name != "About" && spec.Name.Name != "Failure" {
				declared = append(declared, spec.Name.Name)
			}
		case *ast.InterfaceType:
			if spec.Name.Name == "EventType" {
				listed = unionNames(typ.Methods.List[1].Type)
			}
		}
		return true
	})
	slices.Sort(declared)
	slices.Sort(listed)
	if len(declared) == 0 || !slices.Equal(declared, listed) {
		t.Errorf("events %v\nin EventType %v", declared, listed)
	}
}

func unionNames(e ast.Expr) []string {
	switch x := e.(type) {
	case *ast.BinaryExpr:
		return append(unionNames(x.X), unionNames(x.Y)...)
	case *ast.Ident:
		return []string{x.Name}
	}
	return nil
}
