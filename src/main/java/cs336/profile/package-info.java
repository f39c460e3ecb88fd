/** Where memory goes: allocations recorded as they happen, told apart by what they hold, and predicted. */
package cs336.profile;
