package session

import (
	"fmt"
	"slices"
	"strings"
)

// Status is where a session stands in its own life. The status of an
// execution, a task or a workflow run is another thing and never moves it.
type Status string

// The statuses of a session.
const (
	Active    Status = "active"    // open for messages
	Suspended Status = "suspended" // kept, not working
	Completed Status = "completed" // closed, done
	Failed    Status = "failed"    // closed, given up
	Deleted   Status = "deleted"   // hidden, can be restored
)

// Statuses lists every status.
func Statuses() []Status { return []Status{Active, Suspended, Completed, Failed, Deleted} }

// Kind is who owns a session's conversation. It is fixed at Create.
type Kind string

// The kinds of session.
const (
	KindChat     Kind = "chat"
	KindTask     Kind = "task"
	KindWorkflow Kind = "workflow"
	KindPolicy   Kind = "policy"
)

// Kinds lists every kind.
func Kinds() []Kind { return []Kind{KindChat, KindTask, KindWorkflow, KindPolicy} }

// Origin is how a session came to be.
type Origin string

// The origins of a session.
const (
	OriginRoot     Origin = "root"
	OriginFork     Origin = "fork"
	OriginSubagent Origin = "subagent"
	OriginImport   Origin = "import"
)

// origins lists every origin.
func origins() []Origin { return []Origin{OriginRoot, OriginFork, OriginSubagent, OriginImport} }

// Stage is a moment of the pipelines at which hooks are called.
type Stage string

// The stages of the create and execute pipelines.
const (
	AfterLoad    Stage = "after_load"
	AfterAction  Stage = "after_action"
	BeforeCreate Stage = "before_create"
	AfterCreate  Stage = "after_create"
	BeforeSave   Stage = "before_save"
	AfterSave    Stage = "after_save"
)

// oneOf refuses a value outside a closed set and lists the set.
func oneOf[T ~string](field string, value T, allowed []T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return &InvalidError{Field: field, Reason: fmt.Sprintf("%s is not one of %s", quoted(string(value)), strings.Join(names, ", "))}
}
