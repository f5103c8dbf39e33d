package files_test

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/files"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only an example
	w, err := files.Open(files.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	defer w.Close() //nolint:errcheck // only an example
	tools, err := tool.NewSet(w.Tools()...)
	if err != nil {
		panic(err)
	}
	write, _ := tools.Get("file_write")
	read, _ := tools.Get("file_read")
	done, err := write.Call(context.Background(), tool.Call{Arguments: []byte(`{"path": "tea.txt", "content": "green"}`)})
	fmt.Println(done.Content, err)
	_, err = read.Call(context.Background(), tool.Call{Arguments: []byte(`{"path": "../tea.txt"}`)})
	fmt.Println(err != nil)
	// Output:
	// Wrote 5 bytes to the new file tea.txt. <nil>
	// true
}
