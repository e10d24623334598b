// What this process says about itself, read where src/runtime/child.rs reads it.

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime is that of all threads of this process, the garbage collector's included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakMegabytes is the most memory this process has had since its start or since forgetPeak.
func peakMegabytes() (float64, error) {
	return megabytes("VmHWM:")
}

// residentMegabytes is the memory this process has now.
func residentMegabytes() (float64, error) {
	return megabytes("VmRSS:")
}

// forgetPeak makes the peak that of the time to come.
func forgetPeak() error {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

func megabytes(name string) (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name); found {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kilobytes * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("no line %s in /proc", name)
}

// openSockets counts the TCP connections of this process.
func openSockets() (int, error) {
	tcp, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		return 0, err
	}
	ours := map[string]bool{}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if target, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil {
			ours[target] = true
		}
	}
	sockets := 0
	for line := range strings.Lines(string(tcp)) {
		if fields := strings.Fields(line); len(fields) > 9 && ours["socket:["+fields[9]+"]"] {
			sockets++
		}
	}
	return sockets, nil
}
