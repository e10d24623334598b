// CPU time and memory of this process, from the same sources as src/runtime/child.rs.

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime returns that of all threads of this process, including the garbage collector.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakMegabytes returns the peak memory of this process since its start or since forgetPeak.
func peakMegabytes() (float64, error) {
	return megabytes("VmHWM:")
}

// residentMegabytes returns the current memory of this process.
func residentMegabytes() (float64, error) {
	return megabytes("VmRSS:")
}

// forgetPeak resets the peak.
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
