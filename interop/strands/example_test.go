package strands_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/interop/strands"
)

// A run that waits for a person, as another program left it.
func ExampleRepository() {
	home, err := os.MkdirTemp("", "sessions")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(home) }()
	repo, err := strands.New(strands.Config{Dir: filepath.Join(home, "sessions")})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := strands.State{Metadata: strands.Metadata{SessionID: "tea-1", WorkflowName: "tea", PatternType: "chain", Status: strands.Paused}}
	if err := state.SetQuestion(strands.Question{Active: true, Prompt: "Green or black?"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := repo.Save(state, []byte("name: tea\n")); err != nil {
		fmt.Println(err)
		return
	}

	runs, err := repo.List()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range runs {
		state, err := repo.Load(run.SessionID)
		if err != nil {
			fmt.Println(err)
			return
		}
		question, waits, err := state.Question()
		fmt.Println(run.SessionID, run.Status, waits, question.Prompt, err)
	}
	// Output: tea-1 paused true Green or black? <nil>
}
